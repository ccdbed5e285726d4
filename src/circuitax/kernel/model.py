"""The model: named weights with one static spec, which every pass and every analysis takes."""

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from circuitax.kernel.model_fields import (
    FIELDS,
    Fields,
    as_arrays,
    check_fields,
    implied_options,
    named_fields,
    refitted,
)
from circuitax.kernel.positions import Positions
from circuitax.kernel.shown import known
from circuitax.kernel.spec import TransformerSpec, read_options
from circuitax.kernel.weights import Blocks, HeadStack, MLPWeights, NormWeights
from circuitax.names import unknown_attribute


class Model:
    """A decoder-only transformer: its weights, and the spec that fixes their meaning.

    A pytree, whose leaves are the weights (named ``W_E``, ``blocks.attention.W_Q``, ...) and whose
    static part is the spec; jit, vmap and grad take it as they take an array. An ensemble is a
    model with a leading axis of members on every weight, as `stack` makes it, for
    ``jax.vmap(f)(models)``, ``len(models)`` and ``models[0]``. Weights are in row form,
    ``y = x @ W``, with layers stacked.

    Every weight is checked by name when a model is made by hand; ``Model.of`` makes one from
    arrays alone. Transformations of JAX rebuild models without a check.

    Args:
        spec: Sizes and options.
        W_E: Embedding ``[d_vocab, d_model]``.
        W_U: Unembedding ``[d_model, d_vocab]``.
        blocks: Attention, norms and MLPs of all layers, stacked.
        W_pos: Position vectors ``[n_ctx, d_model]``, where the position scheme has a table.
        b_U: Bias of the unembedding ``[d_vocab]``.
        final_norm: Gain and offset of the norm before the unembedding.

    Raises:
        ValueError: If a weight is missing, has another shape than the spec says, is no array of
            floating-point numbers, or would be ignored (norm weights beside ``norm=none``).
    """

    spec: TransformerSpec
    W_E: Array
    W_U: Array
    blocks: Blocks
    W_pos: Array | None
    b_U: Array | None
    final_norm: NormWeights | None

    def __init__(
        self,
        spec: TransformerSpec,
        W_E: Any,
        W_U: Any,
        blocks: Blocks,
        W_pos: Any = None,
        b_U: Any = None,
        final_norm: NormWeights | None = None,
    ) -> None:
        fields = as_arrays((W_E, W_U, blocks, W_pos, b_U, final_norm))
        check_fields(spec, fields)
        self._set(spec, fields)

    @classmethod
    def of(
        cls,
        *,
        W_E: Any,
        W_U: Any,
        attention: HeadStack,
        attention_norm: NormWeights | None = None,
        mlp: MLPWeights | None = None,
        mlp_norm: NormWeights | None = None,
        W_pos: Any = None,
        b_U: Any = None,
        final_norm: NormWeights | None = None,
        attention_post_norm: NormWeights | None = None,
        mlp_post_norm: NormWeights | None = None,
        **options: Any,
    ) -> "Model":
        """A model from arrays; all sizes are read from their shapes.

        Arrays of NumPy or JAX, of any floating-point type; mixed types become the widest.

        Args:
            W_E: Embedding ``[d_vocab, d_model]``; a leading axis of members may stand in front of
                every weight.
            W_U: Unembedding ``[d_model, d_vocab]``.
            attention: ``W_Q [n_layers, n_heads, d_model, d_head]``, ``W_K`` of the same shape or
                with fewer heads, ``W_V [n_layers, n_kv_heads, d_model, d_value]``, ``W_O [n_layers,
                n_heads, d_value, d_model]``, biases, gains of QK-norm.
            attention_norm: Gains and offsets before attention.
            mlp: ``W_in [n_layers, d_model, d_mlp]``, ``W_out [n_layers, d_mlp, d_model]``, ....
            mlp_norm: Gains and offsets before the MLP.
            W_pos: Position vectors; needs ``positions="learned"`` or ``"shortformer"``.
            b_U: Bias of the unembedding.
            final_norm: Gain and offset before the unembedding.
            attention_post_norm: Gains of the norms of what attention writes.
            mlp_post_norm: Gains of the norms of what MLPs write.
            **options: Fields of `TransformerSpec` that are no sizes: ``score_scale`` (None for
                ``1/sqrt(d_head)``), ``positions`` ("none" unless given), ``norm`` ("none"),
                ``causal``, ``activation``, ``parallel``, ``n_ctx`` where there is no table, ....

        Raises:
            ValueError: If a weight does not fit the others, or an option does not fit them.
        """
        norms = (attention_post_norm, mlp_post_norm)
        weights = (W_E, W_U, Blocks(attention, attention_norm, mlp, mlp_norm, *norms), W_pos, b_U)
        fields = as_arrays((*weights, final_norm))
        shapes = {name: leaf.shape for name, leaf in named_fields(fields).items()}
        decided = implied_options(shapes, has_table=True)
        for name in decided:
            if name in options:
                raise ValueError(f"{name}={options[name]} must be left out: the arrays decide it")
        given = {"positions": Positions.none, "n_ctx": None} | read_options(options) | decided
        return cls(TransformerSpec(**given), *fields)

    def _set(self, spec: TransformerSpec, fields: tuple[Any, ...]) -> None:
        object.__setattr__(self, "spec", spec)
        for name, value in zip(FIELDS, fields, strict=True):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name} of a Model cannot be set; use model.replace({name}=...)")

    def replace(self, **changes: Any) -> "Model":
        """The model with some weights or the spec changed, checked again.

        Without ``spec`` the sizes of the new model are those of its weights, and all options stay:
        the factor on the scores too, should ``d_head`` have changed.

        Args:
            **changes: ``spec``, or weights by field: ``W_E``, ``W_U``, ``blocks``, ``W_pos``,
                ``b_U``, ``final_norm``.

        Raises:
            ValueError: If a name is no field, or a weight does not fit.
        """
        for name in changes:
            if name != "spec" and name not in FIELDS:
                raise ValueError(f"{name!r} must be a field of Model: spec, {', '.join(FIELDS)}")
        spec = changes.pop("spec", None)
        fields = tuple(changes.get(name, getattr(self, name)) for name in FIELDS)
        fields = as_arrays(fields)
        return Model(refitted(self.spec, fields) if spec is None else spec, *fields)

    def with_options(self, **options: Any) -> "Model":
        """The same weights under a spec with some fields changed, such as ``causal=False``."""
        return self.replace(spec=self.spec.replace(**options))

    def __len__(self) -> int:
        """The number of members of an ensemble, ``len(models)``."""
        return self._members()[0]

    def __getitem__(self, index: int | slice) -> "Model":
        """One member of an ensemble, ``models[0]``, or some of them, ``models[:3]``.

        Raises:
            ValueError: If the model has no axis of members.
            IndexError: If there is no such member.
        """
        n = self._members()[0]
        if not isinstance(index, slice):
            index = operator.index(index)
            # Python ends a loop over members by an IndexError.
            if not -n <= index < n:
                raise IndexError(f"index={index} must be from {-n} to {n - 1}")
        return jax.tree.map(lambda leaf: leaf[index], self)

    def __bool__(self) -> bool:
        """True: a model is there, whether or not it has a length."""
        return True

    def _members(self) -> tuple[int, ...]:
        if not self.member_axes:
            raise ValueError("model has no axis of members: it is one model, not an ensemble")
        return self.member_axes

    def named(self) -> dict[str, Array]:
        """The weights by name, such as ``blocks.attention.W_Q``."""
        return named_fields(self.fields)

    @property
    def fields(self) -> Fields:
        """The weights in the order of `model_fields.FIELDS`."""
        return tuple(getattr(self, name) for name in FIELDS)

    @property
    def member_axes(self) -> tuple[int, ...]:
        """The leading axes in front of every weight; empty for one model."""
        return tuple(np.shape(self.W_E)[:-2])

    @property
    def W_Q(self) -> Array:
        """``blocks.attention.W_Q [n_layers, n_heads, d_model, d_head]``."""
        return self.blocks.attention.W_Q

    @property
    def W_K(self) -> Array:
        """``blocks.attention.W_K [n_layers, n_kv_heads, d_model, d_head]``."""
        return self.blocks.attention.W_K

    @property
    def W_V(self) -> Array:
        """``blocks.attention.W_V [n_layers, n_kv_heads, d_model, d_value]``."""
        return self.blocks.attention.W_V

    @property
    def W_O(self) -> Array:
        """``blocks.attention.W_O [n_layers, n_heads, d_value, d_model]``."""
        return self.blocks.attention.W_O

    @property
    def W_in(self) -> Array | None:
        """``blocks.mlp.W_in [n_layers, d_model, d_mlp]``; None without MLPs."""
        return None if self.blocks.mlp is None else self.blocks.mlp.W_in

    @property
    def W_out(self) -> Array | None:
        """``blocks.mlp.W_out [n_layers, d_mlp, d_model]``; None without MLPs."""
        return None if self.blocks.mlp is None else self.blocks.mlp.W_out

    @property
    def n_layers(self) -> int:
        return self.spec.n_layers

    @property
    def n_heads(self) -> int:
        return self.spec.n_heads

    @property
    def d_model(self) -> int:
        return self.spec.d_model

    @property
    def d_head(self) -> int:
        return self.spec.head_width

    @property
    def d_value(self) -> int:
        return self.spec.value_width

    @property
    def d_mlp(self) -> int | None:
        return self.spec.d_mlp

    @property
    def d_vocab(self) -> int:
        return self.spec.d_vocab

    @property
    def n_ctx(self) -> int | None:
        return self.spec.n_ctx

    def _repr_html_(self) -> str | None:
        """The tree of weights, for a notebook, where treescope is installed."""
        try:
            import treescope
        except ImportError:
            return None
        if not known(self):
            return None
        fields = {name: getattr(self, name) for name in FIELDS}
        return str(treescope.render_to_html({"spec": self.spec, **fields}))

    def __getattr__(self, name: str) -> Any:
        raise unknown_attribute(self, name, "model.")

    def __repr__(self) -> str:
        spec, leaves = self.spec, jax.tree.leaves(self)
        parts = [
            f"n_layers={spec.n_layers}",
            f"n_heads={spec.n_heads}",
            f"d_model={spec.d_model}",
            f"d_head={spec.head_width}",
            f"d_value={spec.value_width}",
            f"d_mlp={spec.d_mlp}",
            f"d_vocab={spec.d_vocab}",
            f"n_ctx={spec.n_ctx}",
            f"positions={spec.positions.value}",
            f"norm={spec.norm.value}",
        ]
        if all(hasattr(leaf, "shape") and hasattr(leaf, "dtype") for leaf in leaves) and leaves:
            if self.member_axes:
                parts.append(f"members={'x'.join(map(str, self.member_axes))}")
            parts.append(f"{sum(leaf.size for leaf in leaves):,} {leaves[0].dtype} numbers")
        return f"Model({', '.join(parts)})"


def stack(models: Sequence[Model]) -> Model:
    """An ensemble of models of one spec: every weight with a leading axis of members.

    Args:
        models: At least one; ``stack(models)[i]`` is ``models[i]``.

    Raises:
        ValueError: If there is none, one is no model, or their specs or weights differ in shape.
    """
    if isinstance(models, Model) or not isinstance(models, Iterable):
        raise ValueError(f"models is a {type(models).__name__}, must be a list of models")
    models = list(models)
    if not models:
        raise ValueError("models must have at least one model, has none")
    for i, model in enumerate(models):
        if not isinstance(model, Model):
            raise ValueError(f"models[{i}] is a {type(model).__name__}, must be a Model")
        if model.spec != models[0].spec:
            raise ValueError(f"models[{i}] has another spec than models[0]: {model.spec}")
        first, own = (
            {k: jnp.shape(leaf) for k, leaf in one.named().items()} for one in (models[0], model)
        )
        if own != first:
            differ = [k for k in {**first, **own} if own.get(k) != first.get(k)]
            raise ValueError(f"models[{i}] has other shapes than models[0] in {', '.join(differ)}")
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *models)


def check_one_member(model: Any) -> None:
    """Require one model: an ensemble is refused, and so is any other object, such as a run."""
    if not isinstance(model, Model):
        own = ": take run.model" if hasattr(model, "model") else ""
        raise ValueError(f"model is a {type(model).__name__}, must be a Model{own}")
    if model.member_axes:
        raise ValueError(
            f"model has a leading axis of members, {model.member_axes}: vmap over it, or take "
            "models[0]"
        )


def check_next_tokens(model: Model) -> None:
    """Require logits that are of tokens, for losses on next tokens and for generation."""
    out, into = model.spec.vocab_out, model.d_vocab
    if out != into:
        raise ValueError(f"d_vocab_out={out} must be d_vocab={into} to predict tokens")


def _flatten(model: Model) -> tuple[tuple[Any, ...], TransformerSpec]:
    return model.fields, model.spec


def _flatten_with_keys(model: Model) -> tuple[tuple[tuple[Any, Any], ...], TransformerSpec]:
    keys = (jax.tree_util.GetAttrKey(name) for name in FIELDS)
    fields, spec = _flatten(model)
    return tuple(zip(keys, fields, strict=True)), spec


def _unflatten(spec: TransformerSpec, fields: Iterable[Any]) -> Model:
    model = object.__new__(Model)
    model._set(spec, tuple(fields))
    return model


jax.tree_util.register_pytree_with_keys(Model, _flatten_with_keys, _unflatten, _flatten)
