"""Virtual heads: two heads in series act as one, ``(A² A¹) ⊗ (W_OV¹ W_OV²)``.

Through V-composition, ``H`` heads in each of two layers form ``H²`` virtual heads, each with a
pattern and an OV circuit of its own.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.circuits.paths.frozen import FrozenModel, head_writes
from circuitax.circuits.paths.read_out import logits_of
from circuitax.circuits.weights.folding import check_pre_ln
from circuitax.kernel.attention import per_head
from circuitax.kernel.chain import Chain, chain_of
from circuitax.kernel.checks import check_index
from circuitax.kernel.linalg import norm
from circuitax.kernel.model import Model, check_one_member


def virtual_patterns(
    frozen: FrozenModel, first: int, second: int
) -> Float[Array, "n_heads n_heads dest src"]:
    """``A² A¹`` of all pairs, ``[head of the first layer, head of the second, dest, src]``."""
    _check_layers(first, second, frozen.A.shape[0])
    return jnp.einsum("bts,asr->abtr", frozen.A[second], frozen.A[first])


def virtual_ov(model: Model, first: int, second: int) -> Chain:
    """``W_OV¹ W_OV²`` of all pairs, a chain batched over ``[head of first, head of second]``."""
    check_one_member(model)
    check_pre_ln(model, "virtual_ov")
    heads = per_head(model)
    _check_layers(first, second, heads.W_V.shape[0])
    return chain_of(
        heads.W_V[first][:, None],
        heads.W_O[first][:, None],
        heads.W_V[second][None],
        heads.W_O[second][None],
    )


def virtual_sizes(
    frozen: FrozenModel, first: int, second: int
) -> Float[Array, "n_heads n_heads n_ctx"]:
    """Euclidean norms of the logits that each virtual head adds at each position."""
    _check_layers(first, second, frozen.A.shape[0])
    if frozen.norms is not None:
        raise ValueError("frozen.norms must be None: in post-LN take path_stream(frozen, path)")
    brought = head_writes(frozen, first, frozen.embedding)
    written = jnp.swapaxes(head_writes(frozen, second, brought), 0, 1)
    return norm(logits_of(written, frozen.read_out))


def _check_layers(first: int, second: int, n_layers: int) -> None:
    check_index("first", first, n_layers)
    check_index("second", second, n_layers)
    if not first < second:
        raise ValueError(f"first={first} must be a layer before second={second}")
