"""What objects print: names and numbers a person asks for, in at most twenty lines."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import circuitax as cx
from circuitax.circuits.detectors import InductionScores
from circuitax.circuits.patching import Effects
from circuitax.circuits.paths.components import Components
from circuitax.circuits.paths.expansion import Expansion
from circuitax.circuits.weights.composition import Composition
from circuitax.kernel.chain import chain_of
from circuitax.kernel.interventions import NormScales, Trace
from circuitax.kernel.norm import Norm
from circuitax.superposition.optimum.optimum import Optimum

LARGE = np.arange(30 * 9.0).reshape(30, 9)


def printed(value: object) -> list[str]:
    lines = repr(value).splitlines()
    assert len(lines) <= 20 and max(map(len, lines)) <= 100
    return lines


def test_a_trace_prints_shapes_and_leaves_out_what_is_not_there() -> None:
    scales = NormScales(final=jnp.ones(5))
    lines = printed(Trace(jnp.zeros((3, 5, 8)), jnp.zeros((2, 4, 5, 5)), scales))
    assert [line.split() for line in lines[1:]] == [
        ["streams", "float32[3,", "5,", "8]"],
        ["patterns", "float32[2,", "4,", "5,", "5]"],
        ["scales.final", "float32[5]"],
    ]


def test_effects_print_the_largest_by_name() -> None:
    lines = printed(Effects(jnp.array([[0.5, -2.0]]), jnp.array([1.25])))
    assert [line.split() for line in lines[2:]] == [
        ["head", "0.1", "-2"],
        ["mlp", "0", "+1.25"],
        ["head", "0.0", "+0.5"],
    ]
    large = printed(Effects(jnp.asarray(LARGE)))
    assert large[2].split() == ["head", "29.8", "+269"] and len(large) == 14


def test_scores_print_the_heads_that_have_them() -> None:
    prefix, previous = jnp.array([[0.0, 0.1], [0.9, 0.2]]), jnp.array([[0.7, 0.0], [0.0, 0.0]])
    lines = printed(InductionScores(jnp.array([1.0, 3.0]), prefix, previous, jnp.asarray(0.25)))
    assert "loss 2 nats, chance 0.25" in lines[0]
    assert [line.split() for line in lines[2:4]] == [
        ["head", "1.0", "+0.9", "+0"],
        ["head", "0.0", "+0", "+0.7"],
    ]


def test_composition_prints_pairs_farthest_from_chance() -> None:
    z = np.full((3, 2, 2, 2, 2), np.nan)
    z[:, 0, :, 1, :] = 0.1
    z[1, 0, 1, 1, 0] = -7
    lines = printed(Composition(*(jnp.asarray(part) for part in (z / 10, z, z, z + 1))))
    assert lines[2].split() == ["K", "0.1", "→", "1.0", "-0.7", "-7", "-6"]


def test_an_expansion_prints_paths_by_name() -> None:
    terms = np.zeros((9, 2, 3))
    terms[7, 1, 2] = -5  # head 0 of layer 0, then head 1 of layer 1
    terms[0] = 1
    paths = Expansion(jnp.asarray(terms), jnp.zeros(3), jnp.full((2, 3), 0.5), 2)
    lines = printed(paths)
    assert "9 paths; remainder at most 0.5" in lines[0]
    # Of six logits five are 1, and one is 1 - 5.
    assert lines[1] == "absolute sums 1.83 where sums are 1.5 on average"
    assert [line.split() for line in lines[3:5]] == [["0.0", "→", "1.1", "+5"], ["direct", "+1"]]


def test_an_optimum_says_what_was_reached_once() -> None:
    weights = cx.TiedWeights(jnp.zeros((2, 1, 2)), jnp.zeros((2, 2)))
    some = jnp.zeros(2)
    counts = jnp.array([1, 4])
    loss = jnp.array([0.25, 0.5])
    lines = printed(
        Optimum(
            weights, loss, *[some] * 2, *[counts, 0 * counts, counts], weights, jnp.zeros((2, 6))
        )
    )
    assert [line.split() for line in lines[2:4]] == [
        ["cell", "0", "0.25", "0", "1", "1"],
        ["cell", "1", "0.5", "0", "4", "4"],
    ]
    assert lines[4] == "reached once in 1 cell: a better one may be missed"
    ones = jnp.ones(50)
    three = (7 * counts[:1], counts[:1], 2 * counts[:1])
    many = Optimum(weights, ones, ones, ones, *three, weights, some[None])
    assert printed(many)[0] == "Optimum of 1 cell, from 2 starts and climbs" and "once" not in repr(
        many
    )
    many = Optimum(weights, *(ones,) * 3, *(jnp.full(50, 3),) * 3, weights, jnp.zeros((50, 6)))
    assert printed(many)[-1] == "  and 39 more"


def test_all_pairs_prints_extremes_and_failures() -> None:
    points = jnp.array([[0.0], [1.0], [3.0]])
    images = jnp.array([[0.0], [2.0], [3.0]])  # squared ratios 4, 1 and 1/4
    found = cx.distortion(points, images, jnp.array([[-0.5, 0.5]]), (-1.0, 4.0))
    text = "\n".join(printed(found))
    names, values = (line.split() for line in text.splitlines()[1:3])
    shown = dict(zip(names[:4], map(float, values[1:5]), strict=True))
    assert "3 pairs" in text
    assert shown == pytest.approx({"low": -0.75, "median": 0, "mean": 0.75, "high": 3}, abs=5e-3)
    assert "bound 0: 1 below, 1 above" in text
    summary = printed(cx.projection.stream.summarise(found))
    assert summary[0] == "Summary of 3 pairs" and summary[1:4] == text.splitlines()[1:4]


def test_all_pairs_of_many_maps_are_a_row_each() -> None:
    points = jnp.array([[0.0], [1.0], [3.0]])
    images = jnp.stack([points, 2 * points, *[points] * 12])
    bounds = jnp.array([[-0.5, 0.5]])
    lines = printed(jax.vmap(lambda image: cx.distortion(points, image, bounds))(images))
    assert "42 pairs" in lines[0]
    assert (
        lines[3].split()[:3] == ["map", "1", "+3"]
        and lines[3].split()[-2:] == ["0", "3"]
        and "and 3 more" in lines[-3]
    )
    same = printed(cx.distortion(jnp.zeros((3, 2)), jnp.zeros((3, 2))))
    assert "3 without a value, 0 unresolved, 0 not finite" in same[-2]


def test_weights_and_kronecker_terms_print_their_shapes() -> None:
    lines = printed(cx.TiedWeights(jnp.zeros((20, 90)), jnp.zeros(90)))
    assert [line.split()[0] for line in lines[1:]] == ["W", "b"]
    spec = cx.TransformerSpec(7, 5, 2, 2, 8, norm=Norm.layernorm)
    model = cx.init(jax.random.key(0), spec)
    assert "  attention.W_Q" in "\n".join(printed(model.blocks))
    term = cx.Kron(jnp.zeros((3, 5)), None)
    assert repr(term) == "Kron([3, 5] ⊗ identity)"
    assert len(printed(sum([term] * 29, term + term))) == 13


def test_a_spec_prints_the_call_that_makes_it() -> None:
    spec = cx.TransformerSpec(7, 5, 1, n_heads=2, norm=Norm.layernorm, gated=False)
    text = (
        "TransformerSpec(d_vocab=7, n_ctx=5, n_layers=1, n_heads=2, d_model=32, norm='layernorm')"
    )
    assert repr(spec) == text


def test_a_chain_prints_its_widths() -> None:
    chain = chain_of(jnp.zeros((2, 4, 9, 3)), jnp.zeros((3, 7)))
    assert repr(chain) == "Chain([2, 4] maps, 9 → 3 → 7, rank at most 3)"


@pytest.mark.parametrize("inside", [jax.jit, jax.vmap, jax.eval_shape])
def test_what_is_not_known_yet_prints_shapes(inside) -> None:
    seen: list[str] = []

    def show(heads: jax.Array) -> jax.Array:
        seen.extend(printed(Effects(heads)))
        seen.extend(printed(Components(heads, None, heads, None, None)))
        return heads

    (inside if inside is not jax.eval_shape else lambda f: lambda x: jax.eval_shape(f, x))(show)(
        jnp.zeros((1, 3, 4))
    )
    assert "float32[" in seen[1]
