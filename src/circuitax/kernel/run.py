"""A run: a model, a text or a batch of texts, and the results of one forward pass."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from circuitax.display.viewers import attention_viewer, viewer_frame
from circuitax.kernel.checks import chosen_of
from circuitax.kernel.compiled import compiled
from circuitax.kernel.forward import Tokens, forward, next_token_losses, token_ids, unembed
from circuitax.kernel.interventions import Interventions, NormScales, Trace, check_edit, unpadded
from circuitax.kernel.model import Model, check_next_tokens, check_one_member
from circuitax.kernel.shown import known
from circuitax.names import unknown_attribute

_FIELDS = ("model", "tokens", "logits", "trace", "mask")


class Run:
    """A forward pass with its input: a pytree of model, tokens, logits and trace.

    `run` makes it. For a batch, all but the model have a leading axis of texts, and ``run[i]`` is
    the run of text i alone, without its padding.

    Args:
        model: One model.
        tokens: ``[n_ctx]``, or ``[batch, n_ctx]``.
        logits: ``[n_ctx, d_vocab]``, or ``[batch, n_ctx, d_vocab]``.
        trace: Streams, patterns, norm scales, and what heads and MLPs wrote if asked for.
        mask: ``[batch, n_ctx]``, False where texts are padded; None where none is.
        edited: Names of the `Interventions` under which the pass was made, none for a plain one.
    """

    model: Model
    tokens: Array
    logits: Array
    trace: Trace
    mask: Array | None
    edited: tuple[str, ...]

    def __init__(
        self,
        model: Model,
        tokens: Any,
        logits: Any,
        trace: Trace,
        edited: tuple[str, ...] = (),
        mask: Any = None,
    ) -> None:
        for name, value in zip(_FIELDS, (model, tokens, logits, trace, mask), strict=True):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "edited", edited)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name} of a Run cannot be set; compute another with run(...)")

    @property
    def loss(self) -> Float[Array, ""]:
        """The mean next-token loss over positions and texts, in nats; `token_losses` has each."""
        losses = token_losses(self)
        return losses.mean() if self.mask is None else losses.sum() / targets(self.mask).sum()

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
    def head_outputs(self) -> Float[Array, "*batch n_layers n_heads n_ctx d_model"]:
        """Output of each head to the stream; of a run made with ``outputs=True``."""
        return _recorded("head_outputs", self.trace.head_outputs)

    @property
    def mlp_outputs(self) -> Float[Array, "*batch n_layers n_ctx d_model"]:
        """Output of each MLP to the stream; of a run made with ``outputs=True``."""
        _check_mlp("mlp_outputs", self.model)
        return _recorded("mlp_outputs", self.trace.mlp_outputs)

    @property
    def q(self) -> Float[Array, "*batch n_layers n_heads n_ctx d_head"]:
        """Queries as projected, before norms and rotations."""
        return self._inside("q")

    @property
    def k(self) -> Float[Array, "*batch n_layers n_heads n_ctx d_head"]:
        """Keys likewise, one for each query head."""
        return self._inside("k")

    @property
    def v(self) -> Float[Array, "*batch n_layers n_heads n_ctx d_value"]:
        """Values, one for each query head."""
        return self._inside("v")

    @property
    def scores(self) -> Float[Array, "*batch n_layers n_heads dest src"]:
        """Scores before the mask and the softmax."""
        return self._inside("scores")

    @property
    def z(self) -> Float[Array, "*batch n_layers n_heads n_ctx d_value"]:
        """Mixed values of each head, before ``W_O``."""
        return self._inside("z")

    @property
    def mid(self) -> Float[Array, "*batch n_layers n_ctx d_model"]:
        """The stream between attention and MLP of each layer."""
        return self._inside("mid")

    @property
    def pre(self) -> Float[Array, "*batch n_layers n_ctx d_mlp"]:
        """Neurons before their activation; of a gated MLP, its gates."""
        return self._inside("pre")

    @property
    def pre_linear(self) -> Float[Array, "*batch n_layers n_ctx d_mlp"]:
        """``x W_in + b_in`` of a gated MLP, which the gate multiplies."""
        if not self.model.spec.gated:
            raise ValueError("run.pre_linear is of gated MLPs, and the model has none")
        return self._inside("pre_linear")

    @property
    def post(self) -> Float[Array, "*batch n_layers n_ctx d_mlp"]:
        """Neurons: what each puts on its row of ``W_out``."""
        return self._inside("post")

    def _inside(self, name: str) -> Array:
        if name in ("pre", "pre_linear", "post"):
            _check_mlp(name, self.model)
        inside = self.trace.inside
        return _recorded(name, None if inside is None else getattr(inside, name))

    def lens(
        self, positions: Sequence[int] | None = None
    ) -> Float[Array, "*batch place at d_vocab"]:
        """The logit lens: the stream before each layer, and the last, read by norm and unembedding.

        ``N(x_l) W_U + b_U``, each stream through the divisor of its own; the last are the logits.

        Args:
            positions: Where, counted with the padding; None for all.

        Source: nostalgebraist (2020), "interpreting GPT: the logit lens".
        """
        at = chosen_of("positions", positions, self.tokens.shape[-1])
        return _lens(self.model, self.streams[..., jnp.asarray(at, int), :])

    @property
    def is_batch(self) -> bool:
        """Whether the run has an axis of texts."""
        return len(np.shape(self.tokens)) > 1

    @property
    def n_texts(self) -> int:
        """The number of texts of a batch; 1 for one text."""
        return int(np.shape(self.tokens)[0]) if self.is_batch else 1

    def __getitem__(self, index: int) -> "Run":
        """The run of one text of a batch, without its padding.

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
        if self.mask is not None:
            here = np.flatnonzero(np.asarray(self.mask[index]))
            tokens, logits, trace = tokens[here], logits[here], unpadded(trace, here)
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
    mask: Tokens | None = None,
) -> Run:
    """One forward pass of a model on a text or on a batch of texts.

    Args:
        model: One model, not an ensemble; vmap over members.
        tokens: Ids, at least one in each text: a list, or an array of NumPy or JAX, ``[n_ctx]`` or
            ``[batch, n_ctx]``. Lists of unequal length are padded behind, and ``run.mask`` says so.
        interventions: Edits and frozen values, the same for all texts.
        outputs: Also record what each head and each MLP writes, and what they compute before:
            ``run.q``, ``run.scores``, ``run.post`` and the like.
        mask: ``[batch, n_ctx]``, False where a batch is padded, in front of texts or behind. No
            head looks there, positions do not count it, and losses leave it out.

    Raises:
        ValueError: If the model, the tokens or the mask are not as said, or an intervention does
            not fit.
    """
    check_one_member(model)
    if mask is None:
        tokens, mask = _padded(tokens)
    ids = token_ids(tokens, model.d_vocab, batch=True)
    check_edit("interventions", interventions)
    if mask is not None:
        mask = _checked_mask(mask, ids.shape)
    given = () if interventions is None else interventions._asdict().items()
    edited = tuple(name for name, value in given if jax.tree.leaves(value))
    logits, trace = _passes(model, ids, interventions, outputs, mask)
    return Run(model, ids, logits, trace, edited, mask)


@compiled("outputs")
def _passes(
    model: Model,
    ids: Array,
    interventions: Interventions | None,
    outputs: bool,
    mask: Array | None,
) -> tuple[Array, Trace]:
    def one(text: Array, mask: Array | None) -> tuple[Array, Trace]:
        return forward(model, text, interventions, outputs=outputs, mask=mask)

    return one(ids, mask) if ids.ndim == 1 else jax.vmap(one)(ids, mask)


def _padded(tokens: Tokens) -> tuple[Tokens, np.ndarray | None]:
    """Lists of unequal length as one array, padded behind with 0, and where they are texts."""
    texts: list[Any] = list(tokens) if isinstance(tokens, list | tuple) else []
    if not all(isinstance(text, list | tuple) for text in texts):
        return tokens, None
    lengths = [len(text) for text in texts]
    if not lengths or min(lengths) in (0, max(lengths)):
        return tokens, None
    filled = [[*text, *[0] * (max(lengths) - len(text))] for text in texts]
    return filled, np.arange(max(lengths)) < np.array(lengths)[:, None]


def _checked_mask(mask: Tokens, shape: tuple[int, ...]) -> Array:
    mask = mask if isinstance(mask, jax.Array) else np.asarray(mask)
    if mask.dtype != bool or len(shape) != 2 or mask.shape != shape:
        raise ValueError(
            f"mask is {mask.dtype}{list(mask.shape)}, must be bool{list(shape)} of a batch, True "
            "where texts are; leave padding out of one text alone"
        )
    if isinstance(mask, jax.core.Tracer):
        return mask
    runs = np.diff(np.asarray(mask), axis=1, prepend=False, append=False).sum(axis=1)
    if (runs != 2).any():
        raise ValueError("mask must be True for one run of at least one token in each text")
    return jnp.asarray(mask)


def token_losses(run: Run) -> Float[Array, "*batch n_losses"]:
    """The loss on every next token of a run, ``-log softmax(logits_t)[x_{t+1}]``, in nats.

    Args:
        run: A run on one text or on a batch, of at least two tokens each.

    Returns:
        Entry t is the loss on token t + 1; 0 where either is padding, which ``run.loss`` leaves
        out of its mean.

    Raises:
        ValueError: If it is no run, a text has one token, or the logits are not of tokens.
    """
    check_next_tokens(check_run(run).model)
    losses = next_token_losses(run.logits, run.tokens)
    return losses if run.mask is None else jnp.where(targets(run.mask), losses, 0)


def targets(mask: Bool[Array, "*batch n_ctx"]) -> Bool[Array, "*batch n_ctx-1"]:
    """Where a token and the next one are both of the text."""
    return mask[..., :-1] & mask[..., 1:]


@compiled()
def _lens(model: Model, streams: Float[Array, "*batch place n_ctx d_model"]) -> Array:
    rows = streams.reshape(-1, streams.shape[-1])
    return unembed(model, rows)[0].reshape(*streams.shape[:-1], -1)


def _recorded(name: str, value: Array | None) -> Array:
    if value is None:
        raise ValueError(f"run.{name} was not recorded: make the run with outputs=True")
    return value


def _check_mlp(name: str, model: Model) -> None:
    if model.blocks.mlp is None:
        raise ValueError(f"run.{name} is of MLPs, and the model has none")


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
            f"{name} has {run.n_texts} texts, must have one: take {name}[i], or for one in {name}"
        )
    if run.mask is not None:
        raise ValueError(f"{name} is padded, must be without: take {name}[i] of the batch")
    return run


def unedited(
    run: Any, allowed: Collection[str] = (), *, batch: bool = False, name: str = "run"
) -> Run:
    """A run of one text; refuses one made with other `Interventions` than the allowed."""
    run = check_run(run, name) if batch else one_text(run, name)
    check_one_member(run.model)
    edits = [edit for edit in run.edited if edit not in allowed]
    if edits:
        raise ValueError(
            f"{name} was made with interventions ({', '.join(edits)}), must be made without here"
        )
    return run


def _flatten_with_keys(run: Run) -> tuple[tuple[tuple[Any, Any], ...], tuple[str, ...]]:
    keys = (jax.tree_util.GetAttrKey(name) for name in _FIELDS)
    return tuple((key, getattr(run, key.name)) for key in keys), run.edited


def _flatten(run: Run) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    return tuple(getattr(run, name) for name in _FIELDS), run.edited


def _unflatten(edited: tuple[str, ...], fields: Iterable[Any]) -> Run:
    model, tokens, logits, trace, mask = fields
    return Run(model, tokens, logits, trace, edited, mask)


jax.tree_util.register_pytree_with_keys(Run, _flatten_with_keys, _unflatten, _flatten)
