"""A run: a model, a text or a batch of texts, and the results of one forward pass."""

from collections.abc import Collection, Iterable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from circuitax.display.viewers import attention_viewer, viewer_frame
from circuitax.kernel.compiled import compiled
from circuitax.kernel.forward import Tokens, forward, next_token_losses, token_ids
from circuitax.kernel.interventions import Interventions, NormScales, Trace, check_edit
from circuitax.kernel.model import Model, check_next_tokens, check_one_member
from circuitax.kernel.shown import known
from circuitax.names import unknown_attribute

_FIELDS = ("model", "tokens", "logits", "trace")


class Run:
    """A forward pass with its input: a pytree of model, tokens, logits and trace.

    `run` makes it. For a batch, all but the model have a leading axis of texts, and ``run[i]`` is
    the run of text i alone.

    Args:
        model: One model.
        tokens: ``[n_ctx]``, or ``[batch, n_ctx]``.
        logits: ``[n_ctx, d_vocab]``, or ``[batch, n_ctx, d_vocab]``.
        trace: Streams, patterns, norm scales, and what heads and MLPs wrote if asked for.
        edited: Names of the `Interventions` under which the pass was made, none for a plain one.
    """

    model: Model
    tokens: Array
    logits: Array
    trace: Trace
    edited: tuple[str, ...]

    def __init__(
        self, model: Model, tokens: Any, logits: Any, trace: Trace, edited: tuple[str, ...] = ()
    ) -> None:
        for name, value in zip(_FIELDS, (model, tokens, logits, trace), strict=True):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "edited", edited)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name} of a Run cannot be set; compute another with run(...)")

    @property
    def loss(self) -> Float[Array, ""]:
        """The mean next-token loss over positions and texts, in nats; `token_losses` has each."""
        return token_losses(self).mean()

    @property
    def patterns(self) -> Float[Array, "*batch n_layers n_heads dest src"]:
        """Attention of every head, from each destination to each source."""
        return self.trace.patterns

    @property
    def streams(self) -> Float[Array, "*batch place n_ctx d_model"]:
        """The residual stream before each layer, and after the last."""
        return self.trace.streams

    @property
    def scales(self) -> NormScales:
        """Divisors of the norms."""
        return self.trace.scales

    @property
    def head_outputs(self) -> Float[Array, "*batch n_layers n_heads n_ctx d_model"] | None:
        """Output of each head to the stream; None unless made with ``outputs=True``."""
        return self.trace.head_outputs

    @property
    def mlp_outputs(self) -> Float[Array, "*batch n_layers n_ctx d_model"] | None:
        """Output of each MLP; None for a model without, or unless made with ``outputs=True``."""
        return self.trace.mlp_outputs

    @property
    def is_batch(self) -> bool:
        """Whether the run has an axis of texts."""
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
        tokens, logits, trace = jax.tree.map(lambda leaf: leaf[index], parts)
        return Run(self.model, tokens, logits, trace, self.edited)

    def _repr_html_(self) -> str | None:
        """The attention of every head over the text, for a notebook; of a batch, the first text."""
        if not known(self):
            return None
        first = self[0] if self.is_batch else self
        if np.ndim(first.tokens) != 1 or np.ndim(first.patterns) != 4:
            return None
        title = f"Attention on text 0 of {self.n_texts}" if self.is_batch else "Attention"
        tokens = [str(int(token)) for token in first.tokens]
        viewer = attention_viewer(title, tokens, first.patterns)
        height = 230 + 34 * self.model.n_layers + 12 * len(tokens)
        return None if viewer is None else viewer_frame(viewer, min(height, 800))

    def __getattr__(self, name: str) -> Any:
        raise unknown_attribute(self, name, "run.")

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
    check_edit("interventions", interventions)
    given = () if interventions is None else interventions._asdict().items()
    edited = tuple(name for name, value in given if jax.tree.leaves(value))
    return Run(model, ids, *_passes(model, ids, interventions, outputs), edited)


@compiled("outputs")
def _passes(
    model: Model, ids: Array, interventions: Interventions | None, outputs: bool
) -> tuple[Array, Trace]:
    def one(text: Array) -> tuple[Array, Trace]:
        return forward(model, text, interventions, outputs=outputs)

    return one(ids) if ids.ndim == 1 else jax.vmap(one)(ids)


def token_losses(run: Run) -> Float[Array, "*batch n_losses"]:
    """The loss on every next token of a run, ``-log softmax(logits_t)[x_{t+1}]``, in nats.

    Args:
        run: A run on one text or on a batch, of at least two tokens each.

    Returns:
        Entry t is the loss on token t + 1.

    Raises:
        ValueError: If it is no run, a text has one token, or the logits are not of tokens.
    """
    check_next_tokens(check_run(run).model)
    return next_token_losses(run.logits, run.tokens)


def check_run(run: Any, name: str = "run") -> Run:
    """The run itself; any other object, such as a model, is refused."""
    if not isinstance(run, Run):
        raise ValueError(
            f"{name} is a {type(run).__name__}, must be a Run: cx.run(model, tokens, outputs=True)"
        )
    return run


def one_text(run: Any, name: str = "run") -> Run:
    """The run itself; refuses a batch, for analyses of one text."""
    run = check_run(run, name)
    check_one_member(run.model)
    if run.is_batch:
        raise ValueError(
            f"{name} has {run.n_texts} texts, must have one: vmap over the batch, or take {name}[i]"
        )
    return run


def unedited(run: Any, allowed: Collection[str] = ()) -> Run:
    """A run of one text; refuses one made with other `Interventions` than the allowed."""
    run = one_text(run)
    edits = [name for name in run.edited if name not in allowed]
    if edits:
        raise ValueError(
            f"run was made with interventions ({', '.join(edits)}), must be made without here"
        )
    return run


def _flatten_with_keys(run: Run) -> tuple[tuple[tuple[Any, Any], ...], tuple[str, ...]]:
    keys = (jax.tree_util.GetAttrKey(name) for name in _FIELDS)
    return tuple((key, getattr(run, key.name)) for key in keys), run.edited


def _flatten(run: Run) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    return tuple(getattr(run, name) for name in _FIELDS), run.edited


def _unflatten(edited: tuple[str, ...], fields: Iterable[Any]) -> Run:
    model, tokens, logits, trace = fields
    return Run(model, tokens, logits, trace, edited)


jax.tree_util.register_pytree_with_keys(Run, _flatten_with_keys, _unflatten, _flatten)
