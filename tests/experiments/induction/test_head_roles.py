"""Roles and patches of the hand-made induction model, whose heads are known; what is refused."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from circuitax.circuits.known import copying_model, induction_model
from circuitax.circuits.paths.frozen import frozen_model
from circuitax.data.synthetic import RepeatedSource
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.run import run
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.kept_models import notes_of_kept
from circuitax.lab.lab import Lab
from circuitax.models.transformer import init
from circuitax.records.record import Record
from experiments.induction.head_roles.claims import CLAIMS, FULL
from experiments.induction.head_roles.components import REPLACED, alignments, of_windows
from experiments.induction.head_roles.experiment import AXES, Spec
from experiments.induction.head_roles.experiment import full as read_full
from experiments.induction.head_roles.measures import measure, nulls
from experiments.induction.head_roles.path_patching import (
    ROUTES,
    of_pairs,
    swapped_pairs,
    swapped_places,
)
from experiments.induction.head_roles.readings import centred, of_texts, of_weights, own_share
from experiments.induction.shared.head_roles import (
    INDUCTION,
    NEITHER,
    PREVIOUS,
    role_of_each,
    roles,
)

PERIOD = 6
A, Z = swapped_places(PERIOD)


@pytest.mark.parametrize(
    ("field", "least"), [("texts", 1), ("pairs", 1), ("windows", 2), ("shuffles", 2)]
)
def test_refusals(field: str, least: int) -> None:
    with pytest.raises(ValueError, match=f"{field}={least - 1} must be at least {least}"):
        Spec(**{field: least - 1})


def test_periods_without_room_for_two_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match="period=5 must be at least 6"):
        swapped_places(5)


def test_text_models_without_full_ones_are_refused(tmp_path: Path) -> None:
    upstream = Record(notes=notes_of_kept({"layers-0": TransformerSpec(n_layers=0)}, [0]))
    upstream.save(tmp_path / "models")
    lab = Lab(tmp_path / "work", inputs={"text_models": tmp_path / "models"})
    with pytest.raises(ValueError, match="full_seeds=0 of text_models must be at least 1"):
        read_full(Spec(), lab)


def test_pairs_differ_in_what_the_last_token_was_followed_by() -> None:
    pairs = swapped_pairs(jax.random.key(0), 5, 12, PERIOD)
    for clean, corrupted, answer, wrong in zip(*map(np.asarray, pairs), strict=True):
        assert list(np.flatnonzero(clean != corrupted)) == [A, Z]
        assert sorted(clean) == sorted(corrupted) and len(set(clean[:PERIOD])) == PERIOD
        for text, follows in ((clean, answer), (corrupted, wrong)):
            (earlier,) = np.flatnonzero(text[:-1] == text[-1])
            assert text[earlier + 1] == follows


@pytest.fixture(scope="module")
def known() -> dict[str, np.ndarray]:
    """All measures of the hand-made model: 0.0 looks back, 1.0 inducts, the rest is noise."""
    model = induction_model(jax.random.key(0), 12, 12, n_distractors=1)
    pairs = swapped_pairs(jax.random.key(1), 4, 12, PERIOD)
    texts = RepeatedSource(4, 12, 12, 4, 6, distinct=True)(jax.random.key(2))

    @jax.jit
    def measure() -> dict[str, jax.Array]:
        looked = of_texts(model, texts, jax.random.key(3), 32)
        return of_weights(model) | of_pairs(model, pairs, (A, Z)) | looked

    return {name: np.asarray(x) for name, x in measure().items()}


def test_only_the_key_edge_of_the_true_pair_matters(known: dict[str, np.ndarray]) -> None:
    edges = known["edges"].copy()  # [writer, kind, reader]
    assert edges[0, 1, 0] == pytest.approx(1, abs=0.02)
    edges[0, 1, 0] = 0
    assert np.abs(edges).max() < 0.02
    np.testing.assert_allclose(known["routes"][0], [0, 1, 0, 0, 1], atol=0.02)
    assert ROUTES[1] == "K" and np.abs(known["routes"][1]).max() < 0.02
    np.testing.assert_allclose(known["resampled"], [[0, 1], [0, 1]], atol=0.02)


def test_the_swap_is_read_one_position_on(known: dict[str, np.ndarray]) -> None:
    """A clean token alone makes two matches of two: each of the places is worth about a half."""
    expected = np.zeros((3, PERIOD + A + 1))
    expected[0, [A, Z]] = expected[1, [A + 1, Z + 1]] = 0.5
    expected[2, -1] = 1
    np.testing.assert_allclose(known["stream"], expected, atol=0.05)


def test_the_induction_head_writes_the_answer_from_its_place(known: dict[str, np.ndarray]) -> None:
    direct = known["direct"]  # tokens, positions, 0.0, 0.1, 1.0, 1.1
    assert direct.shape == (6,) and direct[4] == pytest.approx(8, abs=0.1)
    assert np.abs(np.delete(direct, 4)).max() < 0.2
    assert known["sources"][1, 0].argmax() == A + 1
    np.testing.assert_allclose(known["sources"].sum(-1).ravel(), direct[2:], atol=1e-4)
    assert known["moves_name"][1, 0] == pytest.approx(1, abs=1e-3)
    assert known["virtual"][0, 0] < 0.1  # it acts through a pattern, not through the value


def test_scores_name_both_heads_and_leave_the_null(known: dict[str, np.ndarray]) -> None:
    assert known["previous"][0, 0] > 0.9 > 5 * known["previous"][1, 0]
    assert known["prefix"][1, 0] > 0.85  # the first token marks itself: a second match, once a text
    assert known["prefix"][1, 0] > known["prefix_null"][1, 0] + 5 * known["prefix_std"][1, 0]
    assert np.abs(known["duplicate"] - known["duplicate_null"]).max() < 0.5
    assert known["overlap_z"][0, 1, 0] > 5 and known["copying"][1, 0] > 0.9
    assert known["overlap"][0, 1, 0] == pytest.approx(1, abs=1e-4)


def test_the_own_share_of_even_attention_by_hand(x64: None) -> None:
    """Each of t + 1 tokens gets 1/(t + 1) of its own direction: 1/√t of the others' norm."""
    model = frozen_model(run(copying_model(7, 2.0), [3, 1, 4, 0, 6]))
    weight = 1 / np.arange(1, 6)
    own, earlier = np.sqrt(np.sum(weight**2)), np.sqrt(np.sum(weight**2 * np.arange(5)))
    assert float(own_share(model)[0, 0]) == pytest.approx(own / (own + earlier), abs=1e-12)
    assert np.abs(np.asarray(centred(model).read_out.W_U).mean(-1)).max() < 1e-12


@pytest.fixture
def full() -> Model:
    spec = TransformerSpec(
        d_vocab=11,
        n_ctx=8,
        n_layers=2,
        n_heads=2,
        d_model=8,
        d_mlp=16,
        norm=Norm.layernorm,
        positions=Positions.rotary,
        biases=True,
    )
    model = init(jax.random.key(0), spec)
    noise = jax.random.normal(jax.random.key(1), model.blocks.attention.b_O.shape)
    attention = model.blocks.attention._replace(b_O=noise)
    return model.replace(blocks=model.blocks._replace(attention=attention))


def test_components_of_a_full_model_close(full: Model) -> None:
    texts = jax.random.randint(jax.random.key(2), (3, 8), 0, 11)
    found = jax.jit(of_windows)(full, texts)
    assert found["remainder"] < 1e-5 and found["direct"].shape == (1 + 4 + 2 + 2 + 1,)
    assert found["nats_lost"].shape == (len(REPLACED), 4 + 2)
    logits = run(full, texts).logits
    lead = logits - logits.mean(-1, keepdims=True)
    right = jnp.take_along_axis(lead[:, :-1], texts[:, 1:, None], axis=-1).mean()
    assert float(found["direct"].sum()) == pytest.approx(float(right), abs=1e-5)
    price = found["norm_constant"] - found["loss"]
    assert float(found["norm_price"]) == pytest.approx(float(price), abs=1e-5)


def test_replacing_a_component_by_itself_costs_nothing(full: Model) -> None:
    text = jax.random.randint(jax.random.key(2), (1, 8), 0, 11)
    texts = jnp.repeat(text, 3, axis=0)
    found = jax.jit(of_windows)(full, texts)
    zero, mean, resample, kept = np.asarray(found["nats_lost"])
    np.testing.assert_allclose([mean, resample], 0, atol=1e-5)
    assert np.abs(zero).min() > 1e-4 and np.abs(zero - kept).max() > 1e-4


def test_alignment_of_mlps_is_with_the_stream_behind_the_heads(full: Model) -> None:
    text = jax.random.randint(jax.random.key(2), (8,), 0, 11)
    found = alignments(full, text[None])
    trace = run(full, text, outputs=True).trace
    written = np.asarray(trace.mlp_outputs)
    stream = np.asarray(trace.streams[1:]) - written
    lengths = np.linalg.norm(written, axis=-1) * np.linalg.norm(stream, axis=-1)
    cosines = np.sum(written * stream, axis=-1) / lengths
    np.testing.assert_allclose(found[4:], cosines.mean(-1), atol=1e-5)
    attention_only = full.replace(blocks=full.blocks._replace(mlp=None, mlp_norm=None))
    assert alignments(attention_only, text[None]).shape == (4,)


def dataset(known: dict[str, np.ndarray], prefix: float, full_alive: bool = True) -> xr.Dataset:
    """The known model eight times over, its induction score overwritten, and a made-up full one."""
    arrays = {name: (axes, np.stack([known[name]] * 8)) for name, axes in AXES.items()}
    each = {
        "loss": 3.0,
        "norm_price": 0.3,
        "bandwidth_reused": 0.2,
        "bandwidth_effective": 0.7,
        "remainder_full": 1e-6,
    }
    lost = np.tile([[0.4], [0.1], [0.2], [0.3]], (3, 1, 2))
    cells = ["head 0.0", "mlp 0"]
    data = xr.Dataset(
        arrays | {name: ("full_member", np.full(3, value)) for name, value in each.items()},
        coords={
            "kind": list("QKV"),
            "place": ["into layer 0", "into layer 1", "final"],
            "route": list(ROUTES),
            "component": ["tokens", "positions", "head 0.0", "head 0.1", "head 1.0", "head 1.1"],
            "head": range(2),
            "cell": cells,
            "replaced": list(REPLACED),
        },
    ).assign(
        alignment_full=(("full_member", "cell"), np.tile([-0.2, 0.3], (3, 1))),
        alignment_full_at_init=(("full_member", "cell"), np.zeros((3, 2))),
        nats_lost=(("full_member", "replaced", "cell"), lost),
        full_alive=("full_member", np.full(3, full_alive)),
        full_uniform=5.0,
        bandwidth_null=0.25,
        alive=("member", np.ones(8, bool)),
        swapped=("swap", np.array([A, Z])),
    )
    data.prefix[:, 1, 0] = prefix
    return roles(data).assign(role=role_of_each(data))


def test_heads_are_named_by_layer_and_score(known: dict[str, np.ndarray]) -> None:
    data = dataset(known, 0.9)
    assert data.role.values[0].tolist() == [[PREVIOUS, NEITHER], [INDUCTION, NEITHER]]
    assert dataset(known, 0.1).role.values[0].tolist() == [[PREVIOUS, NEITHER], [NEITHER, NEITHER]]


def test_preconditions(known: dict[str, np.ndarray]) -> None:
    measured, unmet, _ = measure(Record(dataset(known, 0.9)))
    assert {claim.id for claim in CLAIMS} <= set(measured) and not unmet
    assert measured["previous-through-keys"].value == pytest.approx(1, abs=0.02)
    assert measured["patching-moves"].value == pytest.approx(1, abs=0.02)
    assert measured["edge-largest"].value == measured["direct-largest"].value == 1
    assert measured["norm-absorbed"].value == pytest.approx(0.3 / (5 - 3))
    assert measured["memory-writes-against"].value == pytest.approx(-0.2)
    assert measured["zero-above-mean"].value == pytest.approx(0.4 - 0.1)
    # The other head of the first layer writes nothing, and wins back no lead to have a way.
    assert nulls(Record(dataset(known, 0.9)))["mismatched"]["previous-through-keys"] == [None]
    drawn = nulls(Record(dataset(known, 0.9)))["permuted"]["norm-absorbed"]
    lost = dataset(known, 0.9).nats_lost.sel(replaced=["mean", "resample"]).mean("full_member")
    np.testing.assert_allclose([one.value for one in drawn], lost.values.ravel() / (5 - 3))
    measured, unmet, _ = measure(Record(dataset(known, 0.1, full_alive=False)))
    assert not measured and set(unmet) == {claim.id for claim in CLAIMS}
    assert "only 0 seeds have an induction head" in unmet["edge-largest"]
    diverged = [unmet[claim.id] for claim in CLAIMS if claim.selection == FULL]
    assert set(diverged) == {"every full transformer has diverged"}


def test_what_other_heads_and_places_win_back_counts(known: dict[str, np.ndarray]) -> None:
    data = dataset(known, 0.9)
    # The other head of every second seed wins back half of the lead, a fifth of that by keys.
    for route, share in (("all", 0.5), ("K", 0.1), ("V", 0.4)):
        data.routes.loc[{"route": route}][::2, 1] = share
    drawn = nulls(Record(data))["mismatched"]["previous-through-keys"]
    np.testing.assert_allclose(drawn, [0.2] * 4, rtol=1e-6)
    # As much is lost at a place that has nothing to do with the swap as is won back behind it.
    before = data.stream.sel(place="into layer 1")
    place = data.place.values.tolist().index("into layer 1")
    data.stream[:, place, -1] = -np.abs(before).sum("position").values
    found = measure(Record(data)).estimates["patching-moves"].value
    assert found == pytest.approx(0.5, abs=0.02)
