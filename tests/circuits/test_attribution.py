"""Attribution by derivatives, and interchange: against small changes, permutations and patches."""

from itertools import pairwise, permutations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import circuitax as cx
from circuitax.circuits.attribution import (
    contextual_flows,
    flows,
    gradient_flows,
    holding,
    lead,
    multipliers,
    outputs,
    part_coalitions,
    position_coalitions,
    shapley,
    weight_shares,
    with_neurons,
    with_replaced,
)
from circuitax.circuits.patching import each_head
from circuitax.kernel.interventions import Activations, Interventions, freeze
from circuitax.kernel.secants import softmax_secant, stepwise
from circuitax.kit.real_model import SMALL

TEXTS = jnp.asarray([[1, 2, 3, 4, 5], [1, 7, 3, 9, 5]])
ASKED = jnp.asarray([3, 6])
LITTLE = 1e-5


@pytest.fixture
def seen(x64):
    """A model, what stands in both texts, the difference, and no shift."""
    model = cx.init(jax.random.key(1), SMALL.replace(init_scale=3.0), float)
    both = [outputs(model, text) for text in TEXTS]
    less = jax.tree.map(np.subtract, *both)
    return model, both, less, jnp.zeros_like(less.streams)


def slope(model, text, edit, held=None):
    """Derivative of the lead by a small multiple of an edit, on top of what is held."""

    def value(part):
        scaled = jax.tree.map(lambda x: part * x, edit)._asdict().items()
        given = {name: x for name, x in scaled if jax.tree.leaves(x)}
        return lead(model, text, ASKED, (held or Interventions())._replace(**given))

    return (value(LITTLE) - value(-LITTLE)) / (2 * LITTLE)


def edits(less):
    """The difference of one position of a stream, of a head, of an MLP and of a neuron."""
    zero = jax.tree.map(np.zeros_like, less)
    for name, field, at in (
        ("cuts", "stream_add", (1, 3)),
        ("heads", "head_add", (0, 2)),
        ("mlps", "mlp_add", (1,)),
        ("units", "post", (1, slice(None), 5)),
    ):
        source = "streams" if name == "cuts" else name
        add = np.array(getattr(zero, source))
        add[at] = getattr(less, source)[at]
        place = tuple(i for i in at if not isinstance(i, slice))
        added = {field: jnp.asarray(add)}
        inside = {"add": Activations(**added)} if field == "post" else added
        yield name, place, Interventions(**inside)


def test_attribution_patching_is_what_a_small_interchange_does(seen):
    model, _, less, _ = seen
    runs = [cx.run(model, text) for text in TEXTS]
    found = gradient_flows(*runs, token=3, minus=6)
    for name, place, edit in edits(less):
        expected = slope(model, TEXTS[0], edit)
        np.testing.assert_allclose(getattr(found, name)[place], expected, rtol=1e-6)
    # Of many steps the flows from the embeddings sum to the difference.
    delta = lead(model, TEXTS[0], ASKED) - lead(model, TEXTS[1], ASKED)
    fine = gradient_flows(*runs, token=3, minus=6, steps=600)
    np.testing.assert_allclose(fine.cuts[0].sum(), delta, rtol=1e-4)
    assert abs(found.cuts[0].sum() - delta) > 0.05 * abs(delta)
    with pytest.raises(ValueError, match="steps=-1"):
        gradient_flows(*runs, token=3, minus=6, steps=-1)
    with pytest.raises(ValueError, match="must have the 5 of run"):
        gradient_flows(runs[0], cx.run(model, [1, 2]), token=3, minus=6)


@pytest.mark.parametrize(("share", "gates"), [(0, "frozen"), (0.5, "shared")])
def test_held_parts_are_those_of_an_affine_model(seen, share, gates):
    model, _, less, still = seen
    found = flows(less, multipliers(model, TEXTS[:1], ASKED, still, holding(share)))
    held = freeze(cx.run(model, TEXTS[0], outputs=True).trace, gates)
    for name, place, edit in edits(less):
        expected = slope(model, TEXTS[0], edit, held)
        np.testing.assert_allclose(getattr(found, name)[place], expected, rtol=1e-6)


def contextual_parts(model, taken):
    """β and γ of streams and of the lead, as CD-T's equations have them; a source's β is given."""
    blocks, eps = jax.tree.map(np.asarray, model.blocks), model.spec.norm_eps
    patterns, parts = cx.run(model, TEXTS[0]).patterns, [0, np.asarray(model.W_E)[TEXTS[0]]]
    streams = []

    def move(name, layer):
        given = taken.get((name, layer), 0)
        parts[:] = parts[0] + given, parts[1] - given

    def normed(gain):
        size = np.sqrt(np.mean(sum(parts) ** 2, axis=-1, keepdims=True) + eps)
        return [part / size * gain for part in parts]

    def silu(z):
        return z / (1 + np.exp(-z))

    for layer in range(model.n_layers):
        move("cuts", layer)
        streams.append(sum(parts))
        block = jax.tree.map(lambda w, at=layer: w[at], blocks)
        OV = np.repeat(block.attention.W_V, 2, axis=0) @ block.attention.W_O
        for i, read in enumerate(normed(block.attention_norm.gain)):
            parts[i] = parts[i] + np.einsum("hts,sd,hde->te", patterns[layer], read, OV)
        move("heads", layer)
        read = np.stack(normed(block.mlp_norm.gain))
        (b_x, c_x), (b_z, c_z) = read @ block.mlp.W_in, read @ block.mlp.W_gate
        b_z, c_z = silu(b_z + c_z) - silu(c_z), silu(c_z)
        for i, own in enumerate((b_x * b_z, c_x * c_z)):
            parts[i] = parts[i] + (own + (b_x * c_z + c_x * b_z) / 2) @ block.mlp.W_out
        move("mlps", layer)
    streams.append(sum(parts))
    direction = np.asarray(model.W_U)[:, 3] - np.asarray(model.W_U)[:, 6]
    return streams, [part[-1] @ direction for part in normed(np.asarray(model.final_norm.gain))]


def test_parts_of_contextual_decomposition(seen):
    model, both, less, _ = seen
    found = contextual_flows(model, TEXTS, ASKED, jnp.asarray([1]))
    at = np.eye(5)[3][:, None]
    for name, place, given in (
        ("cuts", (1, 3), less.streams[1] * at),
        ("past", (1,), less.streams[1]),
        ("heads", (0, 2), less.heads[0, 2]),
        ("mlps", (1,), less.mlps[1]),
    ):
        field = "heads" if name == "past" else name
        streams, (beta, gamma) = contextual_parts(model, {(field, place[0]): given})
        np.testing.assert_allclose(streams, both[0].streams, atol=1e-12)
        np.testing.assert_allclose(beta + gamma, lead(model, TEXTS[0], ASKED), rtol=1e-12)
        np.testing.assert_allclose(getattr(found, name)[place], beta, rtol=1e-9)
        assert abs(beta) > 1e-3
    assert np.isnan(found.cuts[0]).all() and np.isnan(found.units).all()
    biased = cx.init(jax.random.key(1), SMALL.replace(biases=True))
    with pytest.raises(ValueError, match="model has b_U, must have no biases"):
        contextual_flows(biased, TEXTS, ASKED, jnp.asarray([1]))


def test_rules_of_the_softmax(seen):
    model, _, less, still = seen
    delta = lead(model, TEXTS[0], ASKED) - lead(model, TEXTS[1], ASKED)
    steps = flows(less, multipliers(model, TEXTS, ASKED, still, stepwise))
    np.testing.assert_allclose(steps.cuts.sum(axis=1), delta, rtol=1e-9)
    secants = cx.contrast(*(cx.run(model, text) for text in TEXTS), token=3, minus=6)
    assert np.abs(steps.cuts - secants.flow).max() > 1e-4
    # At one text twice every rule is the derivative.
    same = jnp.stack([TEXTS[0]] * 2)
    plain = flows(less, multipliers(model, TEXTS[:1], ASKED, still))
    for rule in (stepwise, softmax_secant):
        found = flows(less, multipliers(model, same, ASKED, still, rule))
        np.testing.assert_allclose(found.cuts, plain.cuts, rtol=1e-9, atol=1e-12)


def test_shapley_values_are_means_over_orders(rng):
    values = rng.normal(size=16)
    expected = np.zeros(4)
    for order in permutations(range(4)):
        inside = 0
        for player in order:
            expected[player] += (values[inside | 1 << player] - values[inside]) / 24
            inside |= 1 << player
    np.testing.assert_allclose(shapley(values), expected, atol=1e-12)


def test_coalitions_are_runs_with_patches(seen):
    model, both, less, _ = seen
    runs = [cx.run(model, text, outputs=True) for text in TEXTS]
    ends = [lead(model, text, ASKED) for text in TEXTS]

    def patched(edit, text=TEXTS[1]):
        return lead(model, text, ASKED, edit)

    values = position_coalitions(model, both[0].streams[1], both[1].streams[1], ASKED, 1, 4)
    np.testing.assert_allclose(values[jnp.asarray([0, 15])], ends[::-1], rtol=1e-9)
    one = cx.patch_stream(runs[1], 1, both[0].streams[1], positions=[3])
    np.testing.assert_allclose(values[1 << 2], patched(one), rtol=1e-9)
    parts = part_coalitions(model, *both, ASKED, 1)
    np.testing.assert_allclose(parts[jnp.asarray([0, 31])], ends[::-1], rtol=1e-9)
    head = cx.patch_head(runs[1], (1, 2), both[0].heads[1, 2])
    np.testing.assert_allclose(parts[1 << 2], patched(head), rtol=1e-9)
    heads = with_replaced(model, TEXTS, both, ASKED, each_head(model))
    np.testing.assert_allclose(heads[1, 4 + 2], patched(head), rtol=1e-9)
    units = with_neurons(model, TEXTS, both, ASKED, jnp.asarray([[1, 5]]))
    (*_, (_, _, neuron)) = edits(jax.tree.map(np.negative, less))
    np.testing.assert_allclose(units[0, 0], patched(neuron, TEXTS[0]), rtol=1e-9)


SIZES: dict[str, Any] = {"d_vocab": 7, "n_layers": 2, "n_heads": 2, "d_model": 8, "init_scale": 3.0}
OPTIONS: dict[str, dict[str, Any]] = {
    "attention": {"positions": "shortformer", "n_ctx": 5},
    "gated": {"d_mlp": 5, "gated": True, "activation": "silu", "norm": "rmsnorm"}
    | {"positions": "rotary", "n_kv_heads": 1},
    "biases": {"d_mlp": 5, "activation": "solu_ln", "norm": "layernorm", "biases": True}
    | {"positions": "learned", "n_ctx": 5, "qk_norm": True},
}
LETTERS = [[1, 2, 3, 1, 2], [4, 5, 6, 0, 4]]


def two_models(options):
    """Two models far apart, gains and biases included."""
    spec = cx.TransformerSpec(**SIZES).replace(**options)
    first, second = (cx.init(jax.random.key(i), spec, float) for i in (0, 1))
    return first, jax.tree.map(
        lambda x: x + 0.3 * np.cos(np.arange(x.size)).reshape(x.shape), second
    )


def total(shares):
    return sum(np.asarray(leaf).sum() for leaf in jax.tree.leaves(shares))


@pytest.mark.parametrize("name", OPTIONS)
def test_shares_sum_to_the_difference_of_losses(x64, name):
    first, second = two_models(OPTIONS[name])
    shares = weight_shares(first, second, LETTERS)
    delta = cx.run(first, LETTERS).loss - cx.run(second, LETTERS).loss
    np.testing.assert_allclose(total(shares), delta, rtol=1e-10)
    assert abs(delta) > 0.01
    # Exchanged, every sign changes; near each other it is the gradient.
    turned = weight_shares(second, first, LETTERS)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, -b, atol=1e-12), shares, turned)
    near = jax.tree.map(lambda a, b: a + 1e-8 * (b - a), first, second)
    slope = jax.grad(lambda model: cx.run(model, LETTERS).loss)(first)
    expected = jax.tree.map(lambda a, b, g: (a - b) * g, first, near, slope)
    found = weight_shares(first, near, LETTERS)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-13), found, expected)


def test_shares_of_a_bigram_model_are_those_of_numpy(x64):
    first, second = two_models({"n_layers": 0})
    shares = weight_shares(first, second, LETTERS)
    E, U = (np.stack([getattr(m, name) for m in (first, second)]) for name in ("W_E", "W_U"))
    by_E, by_U = np.zeros_like(E[0]), np.zeros_like(U[0])
    pairs = [pair for text in LETTERS for pair in pairwise(text)]
    for token, right in pairs:
        z = np.einsum("md,mdv->mv", E[:, token], U)
        log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
        mean = (np.exp(log_p[0]) - np.exp(log_p[1])) / (log_p[0] - log_p[1])
        slope = mean / mean.sum() - np.eye(7)[right]
        by_E[token] += (E[0, token] - E[1, token]) * (U.mean(axis=0) @ slope) / len(pairs)
        by_U += (U[0] - U[1]) * np.outer(E[:, token].mean(axis=0), slope) / len(pairs)
    np.testing.assert_allclose(shares.W_E, by_E, atol=1e-12)
    np.testing.assert_allclose(shares.W_U, by_U, atol=1e-12)
    halves = jax.tree.map(lambda x: x.astype("float16"), (first, second))
    singles = jax.tree.map(lambda x: x.astype("float32"), halves)
    found, want = (weight_shares(*pair, LETTERS) for pair in (halves, singles))
    np.testing.assert_array_equal(found.W_E, want.W_E)


def test_what_has_no_shares_is_refused():
    first, second = two_models({"smeared_keys": True})
    with pytest.raises(ValueError, match="smeared_keys=True"):
        weight_shares(first, second, LETTERS)
    with pytest.raises(ValueError, match="another spec"):
        weight_shares(two_models({})[0], second, LETTERS)
