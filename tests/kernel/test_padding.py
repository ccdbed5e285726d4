"""Texts of unequal length in one batch: each as if it were alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.patching import patch_effects
from circuitax.circuits.path_patching import path_effects
from circuitax.circuits.sites import HEAD_SITES, SITES
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.run import run as run_model
from circuitax.kernel.run import token_losses

TEXTS = [[3, 1, 4, 1, 5, 9], [2, 7, 1], [8, 2, 8, 1]]
KINDS = {
    "learned": {"positions": Positions.learned, "norm": Norm.layernorm, "bias": True},
    "rotary": {"positions": Positions.rotary, "norm": Norm.rmsnorm, "window": 2},
    "smeared": {"smear": True, "positions": Positions.shortformer, "norm": Norm.rmsnorm},
    "both ways": {"causal": False, "positions": Positions.sinusoidal, "norm": Norm.layernorm},
}


def padded(side):
    rows = [[0] * (6 - len(t)) + t if side == "left" else t + [0] * (6 - len(t)) for t in TEXTS]
    mask = np.array([[1] * len(t) + [0] * (6 - len(t)) for t in TEXTS], bool)
    return np.array(rows), mask[:, ::-1] if side == "left" else mask


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_padded_text_is_the_text_alone(kind, side, x64, make_transformer):
    model = make_transformer(mlp=True, gated=True, **KINDS[kind])
    tokens, mask = padded(side)
    batch = run_model(model, tokens, outputs=True, mask=mask)
    losses, means = np.asarray(token_losses(batch)), []
    for i, text in enumerate(TEXTS):
        alone = run_model(model, text, outputs=True)
        jax.tree.map(
            lambda got, want: np.testing.assert_allclose(got, want, atol=1e-12), batch[i], alone
        )
        z = np.asarray(alone.logits)[:-1]
        want = np.log(np.exp(z).sum(-1)) - z[np.arange(len(text) - 1), text[1:]]
        first = 6 - len(text) if side == "left" else 0
        np.testing.assert_allclose(losses[i, first : first + len(text) - 1], want, atol=1e-12)
        means.append(want)
    np.testing.assert_allclose(batch.loss, np.concatenate(means).mean(), atol=1e-12)
    hidden = ~(mask[:, None, None, :, None] & mask[:, None, None, None, :])
    assert not np.asarray(batch.patterns)[np.broadcast_to(hidden, batch.patterns.shape)].any()


def test_lists_of_unequal_length_are_padded_and_patched_as_each_alone(x64, make_transformer):
    model = make_transformer(mlp=True, gated=True, **KINDS["rotary"])
    run = run_model(model, TEXTS, outputs=True)
    donor = run_model(model, [[(t + 1) % 11 for t in text] for text in TEXTS], outputs=True)
    np.testing.assert_array_equal(run.mask, padded("right")[1])
    pair = [run_model(model, ids[1, :3], outputs=True) for ids in (run.tokens, donor.tokens)]
    for site in (*SITES, *HEAD_SITES):
        at = slice(None) if site in HEAD_SITES else slice(3)
        found = patch_effects(run, donor, lambda logits: logits[2], position=-1, site=site)[1]
        want = patch_effects(*pair, lambda logits: logits[-1, 2], site=site)
        np.testing.assert_allclose(found[:, at], want, atol=1e-12)
        losses = patch_effects(run, donor, site=site)[1]
        np.testing.assert_allclose(losses[:, at], patch_effects(*pair, site=site), atol=1e-12)
    with pytest.raises(ValueError, match="must be True for one run of at least one token"):
        run_model(model, jnp.zeros((1, 3), int), mask=[[True, False, True]])


@pytest.mark.parametrize("between", ["held", "free"])
def test_paths_of_a_padded_text_are_those_of_the_text_alone(between, x64, make_transformer):
    model = make_transformer(**KINDS["learned"])
    tokens, mask = padded("left")
    runs = [run_model(model, (tokens + i) % 11, outputs=True, mask=mask) for i in (0, 1)]
    asked = {"metric": lambda logits: logits[2], "position": -1, "between": between}
    found = path_effects(*runs, **asked)
    np.testing.assert_allclose(found[1], path_effects(runs[0][1], runs[1][1], **asked), atol=1e-12)
