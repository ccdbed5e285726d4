import numpy as np
import xarray as xr

from experiments.induction.shared.head_roles import aligned_by


def test_heads_are_ordered_layer_by_layer_and_seed_by_seed() -> None:
    names = [
        "tokens",
        "head 0.0",
        "head 0.1",
        "head 0.2",
        "head 1.0",
        "head 1.1",
        "head 1.2",
        "mlp 0",
    ]
    rng = np.random.default_rng(0)
    values = xr.DataArray(
        rng.normal(size=(4, 2, 8)), dims=("seed", "kind", "part"), coords={"part": names}
    )
    score = xr.DataArray(rng.normal(size=(4, 2, 3)), dims=("seed", "full_layer", "full_head"))
    found = aligned_by(values, score, "part")
    assert found.dims == values.dims and list(found.part.values) == names
    for seed in range(4):
        for layer in range(2):
            heads = [f"head {layer}.{i}" for i in range(3)]
            ranked = sorted(range(3), key=lambda i: -float(score[seed, layer, i]))
            np.testing.assert_array_equal(
                found[seed].sel(part=heads), values[seed].sel(part=[heads[i] for i in ranked])
            )
        for name in ("tokens", "mlp 0"):
            np.testing.assert_array_equal(found[seed].sel(part=name), values[seed].sel(part=name))
