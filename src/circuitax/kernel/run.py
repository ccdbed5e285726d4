"""A run: a model, a text or a batch of texts, and the results of one forward pass."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from circuitax.kernel.compiled import compiled
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import Interventions, Trace
from circuitax.kernel.model import Model, check_one_member
from circuitax.kernel.tokens import Tokens, token_ids

_FIELDS = ("model", "tokens", "logits", "trace")


class Run:
    """What an analysis of texts takes: a pytree of model, tokens, logits and trace.

    `run` makes it. For a batch, tokens, logits and trace have a leading axis of texts, and
    ``run[i]`` is the run of text i alone.

    Args:
        model: One model.
        tokens: ``[n_ctx]``, or ``[batch, n_ctx]``.
        logits: ``[n_ctx, d_vocab]``, or ``[batch, n_ctx, d_vocab]``.
        trace: Streams, patterns, norm scales, and what heads and MLPs wrote if asked for.
    """

    model: Model
    tokens: Array
    logits: Array
    trace: Trace

    def __init__(self, model: Model, tokens: Any, logits: Any, trace: Trace) -> None:
        for name, value in zip(_FIELDS, (model, tokens, logits, trace), strict=True):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name} of a Run cannot be set; compute another with run(...)")

    @property
    def is_batch(self) -> bool:
        """Whether it has an axis of texts."""
        return len(np.shape(self.tokens)) > 1

    @property
    def n_texts(self) -> int:
        """The number of texts of a batch; 1 for one text."""
        return int(np.shape(self.tokens)[0]) if self.is_batch else 1

    def __getitem__(self, index: int) -> "Run":
        """The run of one text of a batch.

        Raises:
            ValueError: If it is the run of one text already.
        """
        if not self.is_batch:
            raise ValueError("run has one text already, there are none to take from it")
        # Python ends a loop over the texts of a run by an IndexError.
        if not -self.n_texts <= index < self.n_texts:
            raise IndexError(f"index={index} must be from 0 to {self.n_texts - 1}")
        parts = (self.tokens, self.logits, self.trace)
        return Run(self.model, *jax.tree.map(lambda leaf: leaf[index], parts))

    def __repr__(self) -> str:
        return f"Run({self.model!r}, tokens {list(np.shape(self.tokens))})"


def run(
    model: Model,
    tokens: Tokens,
    interventions: Interventions | None = None,
    *,
    outputs: bool = False,
) -> Run:
    """One forward pass of a model on a text or on a batch of texts of one length.

    Args:
        model: One model, not an ensemble; vmap over members.
        tokens: Ids, at least one in each text: a list, or an array of NumPy or JAX, ``[n_ctx]`` or
            ``[batch, n_ctx]``.
        interventions: Edits and frozen values, the same for all texts.
        outputs: Also record what each head and each MLP writes.

    Raises:
        ValueError: If the model or the tokens are not as said, or an intervention does not fit.
    """
    check_one_member(model)
    ids = token_ids(tokens, model.d_vocab, batch=True)
    return Run(model, ids, *_passes(model, ids, interventions, outputs))


@compiled("outputs")
def _passes(
    model: Model, ids: Array, interventions: Interventions | None, outputs: bool
) -> tuple[Array, Trace]:
    def one(text: Array) -> tuple[Array, Trace]:
        return forward(model, text, interventions, outputs=outputs)

    return one(ids) if ids.ndim == 1 else jax.vmap(one)(ids)


def one_text(run: Run) -> Run:
    """The run itself; refuses a batch, for analyses of one text.

    Raises:
        ValueError: If the run is of a batch of texts, or its model is an ensemble.
    """
    check_one_member(run.model)
    if run.is_batch:
        raise ValueError(
            f"run has {run.n_texts} texts, must have one: vmap over the batch, or take run[i]"
        )
    return run


def _flatten_with_keys(run: Run) -> tuple[tuple[tuple[Any, Any], ...], None]:
    keys = (jax.tree_util.GetAttrKey(name) for name in _FIELDS)
    return tuple((key, getattr(run, key.name)) for key in keys), None


def _flatten(run: Run) -> tuple[tuple[Any, ...], None]:
    return tuple(getattr(run, name) for name in _FIELDS), None


jax.tree_util.register_pytree_with_keys(
    Run, _flatten_with_keys, lambda _, fields: Run(*fields), _flatten
)
