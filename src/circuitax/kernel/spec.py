"""Sizes and options of a transformer, all of it except arrays, also as plain values.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import Enum, StrEnum
from typing import Any

from circuitax.kernel.checks import choice, choose_fields, whole
from circuitax.kernel.mlp import SOLU_EPS, Activation
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.names import nearest

_ENUMS: dict[str, type[StrEnum]] = {
    "activation": Activation,
    "norm": Norm,
    "positions": Positions,
}


@dataclass(frozen=True, repr=False)
class TransformerSpec:
    """A transformer of one stack: attention-only when ``d_mlp`` is None, else with MLPs.

    The defaults are the attention-only family of the circuits papers at small size: shortformer
    positions and no norm. ``positions=learned, norm=layernorm, d_mlp=...`` gives the transformer
    of S2, and ``post_ln=True, final_norm=False`` with it the original one's layers.
    ``causal=False`` gives an encoder. Cross-attention is out of scope: its patterns join two texts,
    so that no path would run from one text's tokens to the logits by maps of one stream. A spec is
    hashable, hence a static argument under jit.

    Args:
        d_vocab: Tokens, the start token included.
        n_ctx: Longest text in training, and rows of ``W_pos`` where the scheme has a table; without
            one, a model reads longer texts too. None for no length.
        n_layers: Number of layers, 0 or more.
        n_heads: Heads in each layer.
        d_model: Width of the stream.
        d_head: Width of queries and keys; None for ``d_model / n_heads``.
        d_value: Width of values; None for ``d_head``.
        n_kv_heads: Heads of keys and values, a divisor of ``n_heads``; query head h reads number
            ``h // (n_heads / n_kv_heads)``. None for ``n_heads``, 1 for multi-query attention.
        d_vocab_out: Columns of the unembedding; None for ``d_vocab``, else a classifier's classes.
        d_mlp: Units of a hidden layer of the MLP; None for no MLP.
        mlp_depth: Hidden layers of the MLP, each of ``d_mlp`` units and with the activation.
        gated: Gated MLP, of one hidden layer.
        activation: Of the MLP; an `Activation` or its name.
        positions: Position scheme; a `Positions` or its name.
        norm: Norm at every read of the stream (pre-LN), or after every addition to it
            (``post_ln``); a `Norm` or its name.
        norm_eps: ε inside its root, positive.
        final_norm: Whether the unembedding reads through a norm.
        parallel: MLP and attention read the same stream, ``r + Attn(r) + MLP(r)``, as S2 prints
            although its pipeline is sequential (E29). Only for models built this way.
        score_scale: Factor on ``⟨q, k⟩``, finite; None for ``1/sqrt(d_head)``, which `scale`
            resolves. S0 drops it, so it is 1 there (E13).
        score_cap: c in ``c tanh(s / c)``, which bounds every score s; None for no bound.
        logit_cap: The same for logits.
        causal: Whether a position reads only itself and earlier ones (E12).
        window: How many positions a causal head reads, its own included; None for all earlier.
        local_layers: The layers that ``window`` and ``local_rotary_base`` are for; None for all.
        smeared_keys: Each key is mixed with the one before it.
        qk_norm: Every query and key goes through an RMS norm with gain before it is rotated.
        joint_qk_norm: That norm has one divisor for all heads, and gains of each head.
        pre_norm: Attention and the MLP read the stream through the norm; False, which needs
            ``post_norm``, for bare reads.
        post_norm: What attention and the MLP write goes through an RMS norm with gain, before it
            is added.
        post_ln: Post-LN, ``x = N(x + f(x))``: the norm acts on the stream after each addition, and
            attention and MLP read it bare.
        biases: Declare biases of attention, MLP and unembedding.
        start_token: Id that training puts in front of every text; None for none.
        init_scale: Factor on the standard deviation ``1/sqrt(fan_in)`` of every map.
        init_embed: Root mean square norm of an embedding row.
        rotary_base: Longest wavelength over 2π of rotary and sinusoidal positions, positive.
        rotary_dim: How many entries of a head turn, from its first, even; None for all.
        rotary_frequencies: Angle of one step for each pair that turns, where they are no powers of
            the base; None for ``rotary_base^(-2i / rotary_dim)``.
        local_rotary_base: Base of ``local_layers``, whose powers turn them whatever
            ``rotary_frequencies`` says; None for no difference.

    Raises:
        ValueError: If a size is impossible, a name is unknown, a number is out of its range, or
            two options exclude each other.

    Source: S0 section 2.2; S0 Definition 5 for ``mlp_depth``; S0 Definition 6 and S2 for
        ``post_ln``; framework paper and induction-heads paper for the options.
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
    n_kv_heads: int | None = None
    d_vocab_out: int | None = None
    rotary_dim: int | None = None
    rotary_frequencies: tuple[float, ...] | None = None
    local_rotary_base: float | None = None
    window: int | None = None
    local_layers: tuple[int, ...] | None = None
    qk_norm: bool = False
    joint_qk_norm: bool = False
    pre_norm: bool = True
    post_norm: bool = False
    post_ln: bool = False
    score_cap: float | None = None
    logit_cap: float | None = None

    def __repr__(self) -> str:
        """The call that makes it: sizes, and options that are not their defaults."""
        changed = {
            field.name: value
            for i, field in enumerate(dataclasses.fields(self))
            if (value := getattr(self, field.name)) != field.default or i < 5
        }
        plain = {k: str(v) if isinstance(v, StrEnum) else v for k, v in changed.items()}
        return f"TransformerSpec({', '.join(f'{name}={value!r}' for name, value in plain.items())})"

    def __new__(cls, *args: Any, **given: Any) -> "TransformerSpec":
        allowed = {field.name for field in fields(cls)}
        for name in given.keys() - allowed:
            raise TypeError(f"TransformerSpec has no {name!r}{nearest(name, allowed)}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        choose_fields(self)
        for name in ("d_vocab", "n_heads", "d_model"):
            whole(name, getattr(self, name), 1)
        whole("n_layers", self.n_layers, 0)
        whole("mlp_depth", self.mlp_depth, 1)
        for name in ("n_ctx", "d_head", "d_value", "d_mlp", "n_kv_heads", "d_vocab_out", "window"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), 1)
        if self.d_head is None and self.d_model % self.n_heads:
            raise ValueError(
                f"n_heads={self.n_heads} must divide d_model={self.d_model}, or set d_head"
            )
        if self.positions.needs_table and self.n_ctx is None:
            raise ValueError(f"n_ctx=None must be set for positions={self.positions.value}")
        rotates_all = self.positions == Positions.rotary and self.rotary_dim is None
        if rotates_all and self.head_width % 2:
            raise ValueError(f"d_head={self.head_width} must be even for positions=rotary")
        if self.positions.computed_from_width and self.d_model % 2:
            raise ValueError(
                f"d_model={self.d_model} must be even for positions={self.positions.value}"
            )
        self._check_attention()
        if self.gated and self.d_mlp is None:
            raise ValueError("gated=True needs d_mlp, which is None")
        if self.mlp_depth > 1 and self.d_mlp is None:
            raise ValueError(f"mlp_depth={self.mlp_depth} needs d_mlp, which is None")
        if self.mlp_depth > 1 and self.gated:
            raise ValueError(
                f"mlp_depth={self.mlp_depth} must be 1 for gated=True: no source defines it deeper"
            )
        if self.activation == Activation.solu_ln and self.d_mlp is not None:
            for name, needed in (("gated", False), ("mlp_depth", 1), ("norm_eps", SOLU_EPS)):
                if (given := getattr(self, name)) != needed:
                    raise ValueError(f"{name}={given} must be {needed} for activation=solu_ln")
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
        for name in ("score_cap", "logit_cap", "local_rotary_base"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name}={value} must be positive and finite")

    def _check_attention(self) -> None:
        """Options of grouped, rotated, windowed and normalised heads that exclude each other."""
        if self.n_heads % self.kv_heads:
            raise ValueError(f"n_kv_heads={self.n_kv_heads} must divide n_heads={self.n_heads}")
        if self.smeared_keys and self.kv_heads != self.n_heads:
            raise ValueError(
                f"n_kv_heads={self.n_kv_heads} must be n_heads={self.n_heads} for smeared_keys=True"
            )
        turned = self.rotary_width
        if turned % 2 or not 0 < turned <= self.head_width:
            if self.rotary_dim is not None:
                raise ValueError(
                    f"rotary_dim={self.rotary_dim} must be even and at most d_head="
                    f"{self.head_width}"
                )
        elif self.rotary_frequencies is not None and 2 * len(self.rotary_frequencies) != turned:
            raise ValueError(
                f"rotary_frequencies has {len(self.rotary_frequencies)} entries, must have one for "
                f"each pair of the {turned} entries that turn"
            )
        if self.positions != Positions.rotary:
            for name in ("rotary_dim", "rotary_frequencies", "local_rotary_base"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} needs positions=rotary, not {self.positions.value}")
        if self.window is not None and not self.causal:
            raise ValueError(f"window={self.window} needs causal=True")
        if self.local_layers is not None:
            if any(not 0 <= layer < self.n_layers for layer in self.local_layers):
                raise ValueError(
                    f"local_layers={self.local_layers} must lie in [0, n_layers={self.n_layers})"
                )
            if self.window is None and self.local_rotary_base is None:
                raise ValueError("local_layers needs window or local_rotary_base")
        if self.post_norm and self.norm != Norm.rmsnorm:
            raise ValueError(f"post_norm=True needs norm=rmsnorm, not {self.norm.value}")
        for name, given, needed in (
            ("joint_qk_norm=True", self.joint_qk_norm, "qk_norm"),
            ("pre_norm=False", not self.pre_norm, "post_norm"),
        ):
            if given and not getattr(self, needed):
                raise ValueError(f"{name} needs {needed}=True")
        if self.post_ln and self.norm == Norm.none:
            raise ValueError("post_ln=True needs a norm, not norm=none")
        for name in ("post_norm", "parallel"):
            if self.post_ln and getattr(self, name):
                raise ValueError(f"{name}=True must be False for post_ln=True")

    @classmethod
    def simplified(cls, *, score_scale: float = 1.0, **options: Any) -> "TransformerSpec":
        """The simplified transformer: no MLP, no norm, no positions, no scale on the scores.

        Args:
            score_scale: Factor on scores; 1 in the source, which drops ``1/sqrt(d_k)`` (E13).
            **options: Sizes, ``causal``, ``biases``, ``start_token``, ``init_scale`` and
                ``init_embed`` of a `TransformerSpec`; ``n_layers=0`` gives the bigram model of S0
                section 4. `circuitax.kernel.gauge` folds biases as footnote 2 does.

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
    def kv_heads(self) -> int:
        """``n_kv_heads``, resolved."""
        return self.n_heads if self.n_kv_heads is None else self.n_kv_heads

    @property
    def vocab_out(self) -> int:
        """``d_vocab_out``, resolved."""
        return self.d_vocab if self.d_vocab_out is None else self.d_vocab_out

    @property
    def rotary_width(self) -> int:
        """``rotary_dim``, resolved."""
        return self.head_width if self.rotary_dim is None else self.rotary_dim

    @property
    def read_norm(self) -> Norm:
        """The norm through which attention and the MLP read; `none` if they read it bare."""
        return self.norm if self.pre_norm and not self.post_ln else Norm.none

    def is_local(self, layer: int) -> bool:
        """Whether ``window`` and ``local_rotary_base`` are for this layer."""
        return self.local_layers is None or layer in self.local_layers

    @property
    def scale(self) -> float:
        """The factor on attention scores: ``score_scale``, or ``1/sqrt(d_head)`` for None."""
        return self.head_width**-0.5 if self.score_scale is None else self.score_scale

    def replace(self, **changes: Any) -> "TransformerSpec":
        """The spec with some fields changed, checked again."""
        return dataclasses.replace(self, **read_options(changes))


_OF_SIMPLIFIED = {"d_vocab", "n_layers", "n_heads", "d_model", "d_head", "d_value", "causal"}
_OF_SIMPLIFIED |= {"biases", "start_token", "init_scale", "init_embed"}


def read_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a `TransformerSpec`, names such as ``"rotary"`` read as members of their enum."""
    read = {k: choice(k, _ENUMS[k], v) if k in _ENUMS else v for k, v in options.items()}
    # JSON has lists only, and a spec must be hashable.
    return {k: tuple(v) if isinstance(v, list) else v for k, v in read.items()}


# Options that are younger than accepted records are written where they are set only, so that the
# notes of a model without them stay as they were.
_YOUNGER = {"post_ln": False, "pre_norm": True, "joint_qk_norm": False}


def to_plain(spec: TransformerSpec) -> dict[str, Any]:
    """Every field as a JSON value; enums by their value."""
    plain = {k: v.value if isinstance(v, Enum) else v for k, v in asdict(spec).items()}
    return {k: v for k, v in plain.items() if k not in _YOUNGER or v != _YOUNGER[k]}


def from_plain(values: Mapping[str, Any], **changes: Any) -> TransformerSpec:
    """The spec of `to_plain`, with some fields changed."""
    known = {field.name for field in fields(TransformerSpec)}
    given = {**values, **changes}
    for name in given:
        if name not in known:
            raise ValueError(f"field {name!r} must be one of TransformerSpec: {sorted(known)}")
    return TransformerSpec(**read_options(given))
