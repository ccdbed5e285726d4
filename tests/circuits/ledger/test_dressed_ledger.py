"""The ledger in the dressed stream: nothing larger is left out, whatever rounding does."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circuitax as cx
from circuitax.circuits.ledger import dressed_moments as moments
from circuitax.circuits.ledger import ledger
from circuitax.circuits.ledger.dressed_moments import dressed_model
from circuitax.circuits.paths.components import ReadOut
from circuitax.circuits.paths.frozen import FrozenMLPs, FrozenModel

L, H, N, D, D_VALUE, D_MLP = 2, 2, 3, 4, 2, 3
POSITION = N - 1
exactly = np.vectorize(Fraction, otypes=[object])


def ordinary(rng: np.random.Generator, sides: int = 1, extra: int = 0) -> dict[str, np.ndarray]:
    A = np.tril(rng.exponential(size=(L, H, N, N)))
    parts = {
        "A": A / A.sum(axis=-1, keepdims=True),
        "embedding": rng.normal(size=(N, D)),
        "W_V": rng.normal(size=(L, H, D, D_VALUE)),
        "W_O": rng.normal(size=(L, H, D_VALUE, D)),
        "b_V": rng.normal(size=(L, H, N, D_VALUE)),
        "b_O": rng.normal(size=(L, D)),
        "W_in": rng.normal(size=(L, sides, D, D_MLP)),
        "factors": rng.normal(size=(L, sides, N, D_MLP)),
        "W_out": rng.normal(size=(L, D_MLP, D)),
        "constant": rng.normal(size=(L, N, D)),
        "w": rng.normal(size=D),
    }
    if extra:
        parts["W_hidden"] = rng.normal(size=(L, extra, D_MLP, D_MLP))
        parts["hidden_factors"] = rng.normal(size=(L, extra, N, D_MLP))
    return parts


def two_sides(rng):
    return ordinary(rng, sides=2)


def deeper(rng):
    return ordinary(rng, sides=2, extra=2)


def cancelled(rng):
    """MLPs that take away nearly all of the stream, and heads that read what is left."""
    parts = ordinary(rng)
    large = 2.0 ** rng.integers(4, 25)
    parts["embedding"] = np.round(8 * parts["embedding"]) / 8 + large * np.array([1, 1, 0, 0])
    for reader in (parts["W_V"], parts["w"][:, None]):
        reader[...] = np.round(64 * reader) / 64
        reader[..., 1, :] = -reader[..., 0, :]
    parts["W_out"][..., 0] = parts["W_out"][..., 1] = large * np.round(parts["W_out"][..., 0])
    return parts


def swallowed(rng):
    """MLPs that take away nearly all that ever enters the stream."""
    parts = ordinary(rng)
    g = rng.normal(size=D)
    parts["W_O"] = rng.normal(size=(L, H, D_VALUE, 1)) * g
    parts["embedding"] = rng.normal(size=(N, 1)) * g
    parts["b_O"][...] = parts["constant"][...] = parts["factors"][...] = 0
    little = 1 - 2.0 ** -rng.integers(30, 45)
    for layer in range(L):
        parts["W_out"][layer, 0] = -g
        parts["factors"][layer, 0, :, 0] = little / (g @ parts["W_in"][layer, 0, :, 0])
    return parts


def scales(rng):
    """Each array has its own scale, and a layer may nearly swallow the stream."""
    parts = ordinary(rng)
    parts["factors"][0] *= 1e8
    parts["W_out"][1] *= 1e-8
    parts["A"] *= rng.random(parts["A"].shape) < 0.7
    return {k: x * 10.0 ** rng.uniform(-6, 6) for k, x in parts.items()}


def far(rng):
    """Embeddings, constants and direction near the ends of double precision."""
    parts, scale = ordinary(rng), 10.0 ** rng.uniform(-140, 140)
    for name in ("embedding", "b_V", "b_O", "constant"):
        parts[name] = parts[name] * scale
    return parts | {"w": parts["w"] * 10.0 ** rng.uniform(-140, 140)}


KINDS = (ordinary, two_sides, deeper, cancelled, swallowed, scales, far)


def frozen_of(parts: dict[str, np.ndarray], parallel: bool) -> FrozenModel:
    at = {name: jnp.asarray(value) for name, value in parts.items()}
    maps = FrozenMLPs(
        at["W_in"],
        at["factors"],
        at["W_out"],
        at["constant"],
        jnp.asarray(0.0 if parallel else 1.0),
        at.get("W_hidden"),
        at.get("hidden_factors"),
    )
    return FrozenModel(
        at["embedding"],
        None,
        at["A"],
        at["W_V"],
        at["W_O"],
        at["b_V"],
        at["b_O"],
        ReadOut(None, jnp.eye(D), None),
        maps=maps,
    )


def map_of(at: dict[str, np.ndarray], layer: int, s: int) -> np.ndarray:
    """The MLP at one position, multiplied out."""
    return units_of(at, layer, s) @ at["W_out"][layer]


def units_of(at: dict[str, np.ndarray], layer: int, s: int) -> np.ndarray:
    """What its last hidden units read at one position, in columns."""
    hidden = sum(
        W * f[s][None] for W, f in zip(at["W_in"][layer], at["factors"][layer], strict=True)
    )
    for W, f in zip(
        *(at[k][layer] for k in ("W_hidden", "hidden_factors") if k in at), strict=True
    ):
        hidden = (hidden @ W) * f[s][None]
    return hidden


def every_path(
    parts: dict[str, np.ndarray], parallel: bool, opened: bool = False
) -> dict[tuple, Fraction]:
    """The exact value of every path of heads and positions in the dressed stream.

    Args:
        parts: Of the frozen model.
        parallel: Whether heads and MLP of a layer read side by side.
        opened: Whether the last stretch is opened: the third part of a key is a neuron then.
    """
    last = {((), (), None): exactly(parts["embedding"])[POSITION]}
    at = {name: exactly(value) for name, value in parts.items()}
    streams = {((), (), s): at["embedding"][s] for s in range(N)}  # path, sources, where it is
    for layer in range(L):
        new = {}
        for h in range(H):
            V, O, A = at["W_V"][layer, h], at["W_O"][layer, h], at["A"][layer, h]
            for t in range(N):
                new[((layer, h),), (None,), t] = at["b_V"][layer, h, t] @ O
                for (path, sources, s), x in streams.items():
                    if A[t, s]:
                        new[(*path, (layer, h)), (*sources, s), t] = A[t, s] * (x @ V @ O)
        direct = {key: x for key, x in streams.items() if not key[0]}
        bias = dict.fromkeys(direct, at["b_O"][layer])
        passing = streams if parallel else streams | new
        if not parallel:
            passing = passing | {key: x + bias[key] for key, x in direct.items()}
        last |= {(path, sources, None): x for (path, sources, t), x in new.items() if t == POSITION}
        last[(), (), None] = last[(), (), None] + at["b_O"][layer] + at["constant"][layer, POSITION]
        units, W_out = units_of(at, layer, POSITION), at["W_out"][layer]
        for (path, sources, t), x in passing.items():
            if t == POSITION:
                last |= {
                    (path, sources, (layer, n)): (x @ units[:, n]) * W_out[n] for n in range(D_MLP)
                }
        after = {}
        for key, x in passing.items():
            after[key] = x + x @ map_of(at, layer, key[2])
        if parallel:
            after |= new
            after |= {key: after[key] + bias[key] for key in direct}
        streams = after | {key: after[key] + at["constant"][layer, key[2]] for key in direct}
    if opened:
        return {key: x @ at["w"] for key, x in last.items()}
    return {
        (path, sources): x @ at["w"] for (path, sources, s), x in streams.items() if s == POSITION
    }


def check(
    parts: dict[str, np.ndarray], parallel: bool, k: int, closes: bool, neurons: bool = False
) -> str:
    """Whether the k largest are refused, left open or proven; never wrong.

    Where rounding is all that is left of a sum, it need not close.
    """
    linear, w = frozen_of(parts, parallel), jnp.asarray(parts["w"])
    try:
        found = ledger.position_ledger(linear, POSITION, w, k=k, neurons=neurons)
    except ValueError as error:
        assert "must be finite" in str(error)
        return "refused"
    values = every_path(parts, parallel, opened=neurons)
    assert found.n_evaluated <= len(values)
    if closes:
        whole, size = sum(values.values()), sum(map(abs, values.values()))
        assert abs(Fraction(found.found) + Fraction(found.remainder) - whole) <= size / 10**9
    keys = (found.paths, found.positions, *([found.neurons] if neurons else []))
    listed = [values.pop(each) for each in zip(*keys, strict=True)]
    for value, error, true in zip(found.values, found.errors, listed, strict=True):
        assert abs(Fraction(value) - true) <= Fraction(error)
    largest = max(map(abs, values.values()), default=0)
    assert largest <= Fraction(found.omitted_bound)
    if found.complete:
        assert largest <= min(map(abs, listed))
    return "proven" if found.complete else "open"


@pytest.mark.parametrize("neurons", [False, True], ids=["heads", "neurons"])
@pytest.mark.parametrize("parallel", [False, True], ids=["sequential", "parallel"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_larger_path_is_ever_left_out(kind, parallel, neurons, rng, x64):
    closes = kind not in (cancelled, swallowed)
    outcomes = [
        check(kind(rng), parallel, int(rng.integers(1, 15)), closes, neurons) for _ in range(3)
    ]
    if kind not in (cancelled, swallowed, scales):
        assert outcomes == ["proven"] * 3


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(KINDS),
    st.booleans(),
    st.integers(1, 20),
    st.booleans(),
)
@settings(max_examples=30, deadline=None)
def test_certificates_of_random_models(seed, kind, parallel, k, neurons):
    with jax.enable_x64(True):
        closes = kind not in (cancelled, swallowed)
        check(kind(np.random.default_rng(seed)), parallel, k, closes, neurons)


@pytest.mark.parametrize("kind", [ordinary, swallowed], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("parallel", [False, True], ids=["sequential", "parallel"])
def test_moments_are_no_less_than_the_sums_of_squares_and_hardly_more(kind, parallel, rng, x64):
    """At the end, ``wᵀ N w``: where terms cancel, a matrix that was not raised would be below."""
    for _ in range(3):
        parts = kind(rng)
        found = moments.dressed_moments(dressed_model(frozen_of(parts, parallel)), POSITION)
        values = every_path(parts, parallel)
        squares = sum(value**2 for (path, _), value in values.items() if path)
        w = exactly(parts["w"])
        bound = w @ exactly(found.at_end) @ w
        assert squares <= bound
        if kind is ordinary:
            assert bound <= squares * (1 + Fraction(1, 10**5))


def test_the_search_prunes_and_its_bound_matters(rng, x64, monkeypatch):
    """Few paths are evaluated; with a bound that is too small the list would be wrong."""
    few, wrong = 0, 0
    for seed in range(8):
        parts = ordinary(np.random.default_rng(seed))
        values = every_path(parts, False)
        largest = sorted(map(abs, values.values()), reverse=True)
        linear, w = frozen_of(parts, False), jnp.asarray(parts["w"])
        found = ledger.position_ledger(linear, POSITION, w, k=1)
        few += found.n_evaluated < len(values)
        np.testing.assert_allclose(np.abs(found.values), float(largest[0]), rtol=1e-9)
        with monkeypatch.context() as broken:
            broken.setattr(moments, "_sandwich", lambda N, r, W: 0.0 * (W.T @ (N @ W)))
            found = ledger.position_ledger(linear, POSITION, w, k=1)
        wrong += bool(abs(found.values[0]) < float(largest[0]) * (1 - 1e-9))
    assert few >= 4 and wrong >= 1


def test_bounds_are_shared_by_directions_and_by_heads_with_the_same_values(rng, x64):
    """Grouped queries, and a stream wider than the blocks of a symmetric product."""
    parts = ordinary(rng)
    parts["W_V"][:, 1] = parts["W_V"][:, 0]
    linear = frozen_of(parts, False)
    bounds = moments.dressed_bounds(linear, -1)
    for w in (parts["w"], rng.normal(size=D)):
        values = every_path(parts | {"w": w}, False)
        found = ledger.position_ledger(linear, -1, jnp.asarray(w), k=9, bounds=bounds)
        largest = sorted(map(abs, values.values()), reverse=True)[:9]
        np.testing.assert_allclose(np.abs(found.values), np.array(largest, float), rtol=1e-9)
        assert found.complete
    with pytest.raises(ValueError, match="bounds are of position 2, must be of 0"):
        ledger.position_ledger(linear, 0, jnp.asarray(w), bounds=bounds)
    with pytest.raises(ValueError, match="bounds are of another run or model than frozen"):
        ledger.position_ledger(
            linear._replace(tokens=linear.tokens + 1), -1, jnp.asarray(w), bounds=bounds
        )
    left, N = rng.normal(size=(30, 400)), rng.normal(size=(30, 30))
    N = N + N.T
    np.testing.assert_allclose(moments._symmetric(left, N @ left), left.T @ N @ left, atol=1e-10)


def test_a_run_is_explained_by_named_steps_that_close_to_its_logit(x64):
    spec = cx.TransformerSpec(d_vocab=9, n_ctx=6, n_layers=2, n_heads=2, d_model=8, d_mlp=7)
    spec = spec.replace(activation="silu", gated=True, norm="rmsnorm", positions="rotary")
    model = cx.init(jax.random.key(4), spec, jnp.float64)
    run = cx.run(model, [3, 1, 4, 1, 5], outputs=True)
    found = cx.ledger(run, token=2, minus=7, k=10**4, by_position=True, mlps="dressed")
    lead = float(run.logits[-1, 2] - run.logits[-1, 7])
    assert found.complete and found.remainder == pytest.approx(0, abs=1e-10 * abs(lead))
    np.testing.assert_allclose(found.found + found.remainder + found.bias, lead, rtol=1e-9)
    expansion = cx.expand(run)
    for path, terms in zip(expansion.paths, expansion.terms, strict=True):
        one = sum(v for p, v in zip(found.paths, found.values, strict=True) if p == path)
        np.testing.assert_allclose(one, terms[-1, 2] - terms[-1, 7], atol=1e-12)
    place = next(i for i, path in enumerate(found.paths) if len(path) == 2)
    (first, second), (a, b) = found.paths[place], found.positions[place]
    words = ["zero", "one", "two", "three", "four"]
    want = f"{words[a]!r} → {first[0]}.{first[1]} → {words[b]!r} → {second[0]}.{second[1]}"
    assert found.steps(words)[place] == want
    assert "direct" in found.steps(words)
    with pytest.raises(ValueError, match="must come with by_position=True"):
        cx.ledger(run, token=2, mlps="dressed")
    with pytest.raises(ValueError, match="mlps='maps' must be 'dressed' or 'sources'"):
        cx.ledger(run, token=2, mlps="maps")
    linear = cx.circuits.paths.frozen.frozen_model(run)
    with pytest.raises(ValueError, match=r"frozen\.maps must be None"):
        ledger.head_ledger(linear, 0, jnp.ones(8))
    broken = linear._replace(maps=linear.maps._replace(W_out=linear.maps.W_out.at[0].set(jnp.nan)))
    with pytest.raises(ValueError, match=r"frozen\.maps\.W_out must be finite"):
        ledger.position_ledger(broken, 0, jnp.ones(8))


def test_neurons_that_write_last_are_named_and_close_to_the_lead(x64):
    spec = cx.TransformerSpec(d_vocab=9, n_ctx=6, n_layers=2, n_heads=2, d_model=8, d_mlp=7)
    spec = spec.replace(activation="silu", gated=True, norm="rmsnorm", positions="rotary")
    model = cx.init(jax.random.key(4), spec, jnp.float64)
    run = cx.run(model, [3, 1, 4, 1, 5], outputs=True)
    how = {"token": 2, "minus": 7, "by_position": True, "k": 10**4}
    found = cx.ledger(run, mlps="dressed", neurons=True, **how)
    lead = float(run.logits[-1, 2] - run.logits[-1, 7])
    assert found.complete and found.remainder == pytest.approx(0, abs=1e-10 * abs(lead))
    # What all paths through a neuron add up to is what it writes in the run itself.
    w = (run.model.W_U[:, 2] - run.model.W_U[:, 7]) * run.model.final_norm.gain
    along = np.asarray(model.blocks.mlp.W_out) @ np.asarray(w / run.scales.final[-1])
    gates = np.asarray(run.trace.gates.values)[:, 0, -1]
    for layer, unit in ((0, 3), (1, 6)):
        read = np.asarray(run.trace.streams[layer, -1]) + np.asarray(
            run.trace.head_outputs[layer, :, -1]
        ).sum(axis=0)
        norm = model.blocks.mlp_norm.gain[layer] / run.scales.mlp[layer, -1]
        hidden = (read * norm) @ np.asarray(model.blocks.mlp.W_in[layer, :, unit])
        want = hidden * gates[layer, unit] * along[layer, unit]
        paths = zip(found.neurons, found.values, strict=True)
        one = sum(value for neuron, value in paths if neuron == (layer, unit))
        np.testing.assert_allclose(one, want, rtol=1e-9)
    at = next(i for i, unit in enumerate(found.neurons) if unit and len(found.paths[i]) == 1)
    (((layer, head),), (source,), (late, unit)) = (
        found.paths[at],
        found.positions[at],
        found.neurons[at],
    )
    words = ["zero", "one", "two", "three", "four"]
    want = f"{words[source]!r} → {layer}.{head} → mlp {late}.n{unit}"
    assert found.steps(words)[at] == want
    assert found.names[at] == f"{layer}.{head}[{source}] → mlp {late}.n{unit}"
    assert "direct" in found.names
    with pytest.raises(ValueError, match="mlps='sources' must be 'dressed' with neurons=True"):
        cx.ledger(run, neurons=True, **how)
    bare = cx.circuits.paths.frozen.frozen_model(run, mlps="sources")
    with pytest.raises(ValueError, match="neurons must be False"):
        ledger.position_ledger(bare, 0, jnp.ones(8), neurons=True)
