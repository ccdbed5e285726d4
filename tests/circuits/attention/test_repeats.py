"""What heads do at repeats, against loops over positions."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.circuits.detectors import shares_at_repeats, sums_at_repeats
from circuitax.circuits.losses import repeated_pairs
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.run import run as run_model


def test_sums_and_shares_by_loops(make_run, x64):
    base = make_run(2, positions=Positions.learned, norm=Norm.rmsnorm, n_ctx=12)
    text = np.array([0, 3, 1, 3, 1, 2, 0, 3, 1, 3, 2, 0])
    run = run_model(base.model, text)
    repeats = repeated_pairs(run.tokens)
    sums = jax.jit(sums_at_repeats)(run, repeats)
    A, heads = np.asarray(run.trace.patterns), run.model.blocks.attention
    streams, scales = np.asarray(run.trace.streams), np.asarray(run.trace.scales.attention)
    W_U = np.asarray(run.model.W_U)
    directions = (W_U - W_U.mean(1, keepdims=True)).T
    final = np.asarray(run.trace.scales.final)
    at = [t for t in range(11) if (text[t], text[t + 1]) in itertools.pairwise(text[: t + 1])]
    assert len(at) == int(sums["n_repeats"]) > 3
    expected = {name: np.zeros((2, 2)) for name in ("moved", "on_match", "hits", "raised")}
    for layer, head in np.ndindex(2, 2):
        W_OV = np.asarray(heads.W_V[layer, head]) @ np.asarray(heads.W_O[layer, head])
        written = streams[layer] / scales[layer][:, None] @ W_OV
        for t in at:
            row = A[layer, head, t]
            moved = row * np.linalg.norm(written, axis=1)
            match = [
                s for s in range(1, t + 1) if text[s - 1] == text[t] and text[s] == text[t + 1]
            ]
            expected["moved"][layer, head] += moved.sum()
            expected["on_match"][layer, head] += moved[match].sum()
            expected["hits"][layer, head] += row.argmax() in match
            expected["raised"][layer, head] += row @ written @ directions[text[t + 1]] / final[t]
    for name, value in expected.items():
        np.testing.assert_allclose(sums[name], value, atol=1e-10, err_msg=name)
    twice = shares_at_repeats(jax.tree.map(lambda x: 2 * x, sums))  # two texts alike
    np.testing.assert_allclose(twice["stripes"], expected["on_match"] / expected["moved"])
    np.testing.assert_allclose(twice["top_is_match"], expected["hits"] / len(at))
    np.testing.assert_allclose(twice["raises"], expected["raised"] / len(at), atol=1e-12)


def test_without_repeats_all_shares_are_0(make_run):
    run = make_run(1, dtype=jnp.float32)
    shares = shares_at_repeats(sums_at_repeats(run, jnp.zeros(4, bool)))
    assert not any(np.asarray(share).any() for share in shares.values())
