"""Sizes and options of a transformer: everything about it that is not an array.

Sources (docs/bibliography.md): S0 is "Some Structures in Transformer Architectures" and S2 the
attention chapter. E12, E13 and E29 are errata of the sources (docs/errata.md).
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from circuitax.kernel.activations import Activation
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions

_ENUMS: dict[str, type[StrEnum]] = {
    "activation": Activation,
    "norm": Norm,
    "positions": Positions,
}


@dataclass(frozen=True)
class TransformerSpec:
    """A decoder-only transformer: attention-only when ``d_mlp`` is None, else with MLPs; pre-LN.

    The defaults are the attention-only family of the circuits papers at small size: shortformer
    positions and no norm. ``positions=learned, norm=layernorm, d_mlp=...`` gives the transformer
    of S2. A spec is hashable, hence a static argument under jit.

    Args:
        d_vocab: Tokens, the start token included.
        n_ctx: Longest text, and size of ``W_pos`` where the scheme has one; None for no limit.
        n_layers: Number of layers, 0 or more.
        n_heads: Heads in each layer.
        d_model: Width of the stream.
        d_head: Width of queries and keys; None for ``d_model / n_heads``.
        d_value: Width of values; None for ``d_head``.
        d_mlp: Units of a hidden layer of the MLP; None for no MLP.
        mlp_depth: Hidden layers of the MLP, each of ``d_mlp`` units and with the activation.
        gated: Gated MLP, of one hidden layer.
        activation: Of the MLP; an `Activation` or its name.
        positions: Position scheme; a `Positions` or its name.
        norm: Norm at every read of the stream; a `Norm` or its name.
        norm_eps: ε inside its root, positive.
        final_norm: Whether the unembedding reads through a norm.
        parallel: MLP and attention read the same stream, ``r + Attn(r) + MLP(r)``, as S2 prints
            although its pipeline is sequential (E29). Only for models built this way.
        score_scale: Factor on ``⟨q, k⟩``, finite; None for ``1/sqrt(d_head)``, which `scale`
            resolves. S0 drops it, so it is 1 there (E13).
        causal: Whether a position reads only itself and earlier ones (E12).
        smeared_keys: Each key is mixed with the one before it.
        biases: Declare biases of attention, MLP and unembedding.
        start_token: Id that training puts in front of every text; None for none.
        init_scale: Factor on the standard deviation ``1/sqrt(fan_in)`` of every map.
        init_embed: Root mean square norm of an embedding row.
        rotary_base: Longest wavelength over 2π of rotary and sinusoidal positions, positive.

    Raises:
        ValueError: If a size is impossible, a name is unknown, a number is out of its range, or
            two options exclude each other.

    Source: S0 section 2.2; S0 Definition 5 for ``mlp_depth``; S2; framework paper and
        induction-heads paper for the options.
    """

    d_vocab: int = 64
    n_ctx: int | None = 64
    n_layers: int = 2
    n_heads: int = 4
    d_model: int = 32
    d_head: int | None = None
    d_value: int | None = None
    d_mlp: int | None = None
    mlp_depth: int = 1
    gated: bool = False
    activation: Activation = Activation.gelu
    positions: Positions = Positions.shortformer
    norm: Norm = Norm.none
    norm_eps: float = 1e-5
    final_norm: bool = True
    parallel: bool = False
    score_scale: float | None = None
    causal: bool = True
    smeared_keys: bool = False
    biases: bool = False
    start_token: int | None = None
    init_scale: float = 1.0
    init_embed: float = 1.0
    rotary_base: float = 10_000.0

    def __post_init__(self) -> None:
        for name, kind in _ENUMS.items():
            object.__setattr__(self, name, _choice(name, kind, getattr(self, name)))
        for name in ("d_vocab", "n_heads", "d_model"):
            _at_least(name, getattr(self, name), 1)
        _at_least("n_layers", self.n_layers, 0)
        _at_least("mlp_depth", self.mlp_depth, 1)
        for name in ("n_ctx", "d_head", "d_value", "d_mlp"):
            if getattr(self, name) is not None:
                _at_least(name, getattr(self, name), 1)
        if self.d_head is None and self.d_model % self.n_heads:
            raise ValueError(
                f"n_heads={self.n_heads} must divide d_model={self.d_model}, or set d_head"
            )
        if self.positions.needs_table and self.n_ctx is None:
            raise ValueError(f"n_ctx=None must be set for positions={self.positions.value}")
        if self.positions == Positions.rotary and self.head_width % 2:
            raise ValueError(f"d_head={self.head_width} must be even for positions=rotary")
        if self.positions.computed_from_width and self.d_model % 2:
            raise ValueError(
                f"d_model={self.d_model} must be even for positions={self.positions.value}"
            )
        if self.gated and self.d_mlp is None:
            raise ValueError("gated=True needs d_mlp, which is None")
        if self.mlp_depth > 1 and self.d_mlp is None:
            raise ValueError(f"mlp_depth={self.mlp_depth} needs d_mlp, which is None")
        if self.mlp_depth > 1 and self.gated:
            raise ValueError(
                f"mlp_depth={self.mlp_depth} must be 1 for gated=True: no source defines it deeper"
            )
        if self.start_token is not None and not 0 <= self.start_token < self.d_vocab:
            raise ValueError(
                f"start_token={self.start_token} must lie in [0, d_vocab={self.d_vocab})"
            )
        for name in ("init_scale", "init_embed"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}={getattr(self, name)} must not be negative")
        for name in ("norm_eps", "rotary_base"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}={getattr(self, name)} must be positive")
        if self.score_scale is not None and not math.isfinite(self.score_scale):
            raise ValueError(f"score_scale={self.score_scale} must be finite")

    @classmethod
    def simplified(cls, *, score_scale: float = 1.0, **options: Any) -> "TransformerSpec":
        """The simplified transformer: no MLP, no norm, no positions, no scale on the scores.

        Args:
            score_scale: Factor on scores; 1 in the source, which drops ``1/sqrt(d_k)`` (E13).
            **options: Sizes, ``causal``, ``biases``, ``start_token``, ``init_scale`` and
                ``init_embed`` of a `TransformerSpec`; ``n_layers=0`` gives the bigram model of S0
                section 4. `circuitax.kernel.bias` folds biases as footnote 2 does.

        Raises:
            ValueError: If an option is not one of these, or a size is impossible.

        Source: S0 Definition 12, for any number of heads and layers.
        """
        for name in options:
            if name not in _OF_SIMPLIFIED:
                raise ValueError(
                    f"{name}={options[name]} must be left out: a simplified transformer has "
                    f"{', '.join(sorted(_OF_SIMPLIFIED))} and score_scale"
                )
        return cls(**options, score_scale=score_scale, n_ctx=None, positions=Positions.none)

    @property
    def head_width(self) -> int:
        """``d_head``, resolved."""
        return self.d_model // self.n_heads if self.d_head is None else self.d_head

    @property
    def value_width(self) -> int:
        """``d_value``, resolved."""
        return self.head_width if self.d_value is None else self.d_value

    @property
    def scale(self) -> float:
        """The factor on attention scores: ``score_scale``, or ``1/sqrt(d_head)`` for None."""
        return self.head_width**-0.5 if self.score_scale is None else self.score_scale

    def replace(self, **changes: Any) -> "TransformerSpec":
        """The spec with some fields changed, checked again."""
        return dataclasses.replace(self, **read_options(changes))


_OF_SIMPLIFIED = {
    "d_vocab",
    "n_layers",
    "n_heads",
    "d_model",
    "d_head",
    "d_value",
    "causal",
    "biases",
    "start_token",
    "init_scale",
    "init_embed",
}


def read_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a `TransformerSpec` with names such as ``"rotary"`` read as members of their enum.

    Raises:
        ValueError: If a name is unknown.
    """
    return {k: _choice(k, _ENUMS[k], v) if k in _ENUMS else v for k, v in options.items()}


def _choice(name: str, kind: type[StrEnum], value: Any) -> StrEnum:
    if value not in list(kind):
        raise ValueError(f"{name}={value!r} must be one of {', '.join(kind)}")
    return kind(value)


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"{name}={value} must be at least {least}")
