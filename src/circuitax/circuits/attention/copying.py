"""Copying by heads on a text: raised tokens compared with attended tokens.

Eigenvalues of the OV circuit (`spectra.copying_score`) say it from weights. These scores say it
from a run, whatever the layer and whatever the values were read from.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.circuits.weights.heads import unembedding
from circuitax.kernel.gauge import centre_last
from circuitax.kernel.linalg import cosine, safe_divide
from circuitax.kernel.run import Run, one_text


class HeadCopying(NamedTuple):
    """Means over the positions of one text, of every head.

    Attributes:
        raised: Share of all that a head raises which it raises on tokens that it attends to, in [0,
            1].
        cosine: Cosine of what a head does to the logits with what it attends to, in [-1, 1].
    """

    raised: Float[Array, "n_layers n_heads"]
    cosine: Float[Array, "n_layers n_heads"]


def head_copying(run: Run) -> HeadCopying:
    r"""Compare the tokens that each head raises with the tokens that it attends to.

    For a head at position t, let ``r`` be what its output does to the logits, less its mean, and
    ``a_v`` the attention that it pays to all sources with token v. Then ``raised`` is
    ``Σ_v max(r_v, 0) a_v / max a`` over ``Σ_v max(r_v, 0)``, and ``cosine`` is that of r with a
    less its mean. A head that writes what it attends to has 1 and 1, one that takes it back 0
    and -1, and a random one the share of tokens that it attends to, and 0.

    Source: induction-heads paper, evaluator "copying" (25 random tokens, outputs through the direct
        path, less the mean, through a ReLU).
    Differs: tokens are weighted by attention and the share is not rescaled to [-1, 1]: the paper's
        account of its rescaling does not fit its definition. The cosine is ours.
    """
    one_text(run)
    outputs = run.trace.head_outputs
    if outputs is None:
        raise ValueError("run must be made with outputs=True")
    raises = centre_last(outputs @ unembedding(run.model))
    is_token = jax.nn.one_hot(run.tokens, run.model.d_vocab, dtype=raises.dtype)
    attended = run.trace.patterns @ is_token
    up = jnp.maximum(raises, 0)
    most = attended.max(axis=-1, keepdims=True)
    share = safe_divide((up * attended / most).sum(axis=-1), up.sum(axis=-1))
    return HeadCopying(share.mean(axis=-1), cosine(raises, centre_last(attended)).mean(axis=-1))
