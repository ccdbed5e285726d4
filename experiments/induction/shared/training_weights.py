"""The weights of all measured steps: which changes lowered the loss, and patterns that form."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PyTree

from circuitax.circuits.attribution import weight_shares
from circuitax.kernel.forward import forward
from circuitax.kernel.model import Model
from circuitax.training.language import text_losses

# Weights of one purpose, in models of two layers without MLPs.
WEIGHTS = ("QK, layer 1", "OV, layer 1", "QK, layer 0", "OV, layer 0", "W_E", "W_U", "W_pos")


def with_weights(measure: Callable[[Model], dict[str, Array]]) -> Callable[..., dict[str, Array]]:
    """A measurement that returns ``weights`` too: one row of all weights of each member."""
    flat = jax.jit(jax.vmap(lambda model: ravel_pytree(model)[0]))
    return lambda models: measure(models) | {"weights": flat(models)}


def weight_changes(
    weights: Float[np.ndarray, "step member entry"],
    models: Model,
    texts: Int[Array, "member text n_ctx"],
) -> dict[str, Any]:
    """Change of the loss to each step from the one before, and the share of each of `WEIGHTS`.

    ``weight_share [step, member, weight]`` is the sum of `weight_shares`, ``loss_change [step,
    member]`` the difference of two losses that are computed singly; both in float64, and zero at
    the first step. ``models`` says what the rows are: the same ensemble at any step.
    """
    with jax.enable_x64(True):
        as_model, rows = _as_model(models, jnp.float64), np.asarray(weights, float)
        found = [_of_pairs(as_model, after, before, texts) for before, after in pairwise(rows)]
    share, change = (
        np.stack([np.zeros_like(part[0]), *map(np.asarray, part)])
        for part in zip(*found, strict=True)
    )
    over = ("step", "member")
    return {"weight_share": ((*over, "weight"), share), "loss_change": (over, change)}


def patterns_of_best(
    models: Model, curves: dict[str, np.ndarray], text: Int[Array, " n_ctx"]
) -> dict[str, Any]:
    """Attention on a text at every step of the first member, of the two heads that end best.

    ``pattern [step, shown_head, dest, src]``, to 1/1024: the head of layer 0 that looks most at the
    previous token, and that of layer 1 that matches prefixes best.
    """
    previous, prefix = (curves[name][-1, 0] for name in ("previous", "prefix"))
    first, second = int(previous[0].argmax()), int(prefix[1].argmax())
    as_model = _as_model(models, jnp.float32)

    @jax.jit
    def patterns(row: Array) -> Array:
        found = forward(as_model(row), text)[1].patterns
        return jnp.stack([found[0, first], found[1, second]])

    found = np.stack([np.asarray(patterns(row)) for row in curves["weights"][:, 0]])
    return {
        "pattern": (("step", "shown_head", "dest", "src"), np.round(found * 1024) / 1024),
        "shown_head": ["previous token", "induction"],
        "shown_text": ("src", np.asarray(text)),
    }


def _as_model(models: Model, dtype: PyTree) -> Callable[[Array], Model]:
    like = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape[1:], dtype), models)
    as_model: Callable[[Array], Model] = ravel_pytree(like)[1]
    return as_model


@partial(jax.jit, static_argnums=0)
def _of_pairs(as_model: Callable[[Array], Model], *rows: Array) -> tuple[Array, Array]:
    return jax.lax.map(lambda each: _of_pair(as_model, *each), rows)


def _of_pair(
    as_model: Callable[[Array], Model], after: Array, before: Array, texts: Array
) -> tuple[Array, Array]:
    models = as_model(after), as_model(before)
    found = weight_shares(*models, texts).named()
    each = {name: found[f"blocks.attention.W_{name}"].sum(axis=(1, 2, 3)) for name in "QKVO"}
    qk, ov = each["Q"] + each["K"], each["V"] + each["O"]
    others = [found[name].sum() for name in ("W_E", "W_U", "W_pos")]
    losses = [text_losses(model, texts).mean() for model in models]
    return jnp.stack([qk[1], ov[1], qk[0], ov[0], *others]), losses[0] - losses[1]
