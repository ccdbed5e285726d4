"""Sizes and options of transformers, checked when they are built; usable as config schemas."""

from dataclasses import dataclass, fields

from circuitax.kernel.activations import Activation
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import ForwardSpec


@dataclass(frozen=True)
class SimplifiedSpec:
    """S0 Definition 12, any number of heads and layers: no MLP, no norm, no positions, no scale.

    Args:
        d_vocab: Tokens, the start token included.
        n_layers: 0 gives the bigram model of S0 section 4.
        n_heads: Heads of a layer.
        d_model: Width of the stream.
        d_head: Width of queries and keys; None for ``d_model / n_heads``.
        d_value: Width of values; None for ``d_head``.
        score_scale: Factor on scores; 1 in S0, which drops ``1/sqrt(d_k)`` (E13).
        causal: Mask the future (E12).
        biases: Declare biases; `circuitax.kernel.bias` folds them as footnote 2 does.
        start_token: Id that training puts in front of every text; None for none.
        init_scale: Factor on the standard deviation ``1/sqrt(fan_in)`` of every map.
        init_embed: Root mean square norm of an embedding row.

    Raises:
        ValueError: If a size is impossible; the message names it.

    Source: S0 Definition 12.
    """

    d_vocab: int = 64
    n_layers: int = 2
    n_heads: int = 4
    d_model: int = 32
    d_head: int | None = None
    d_value: int | None = None
    score_scale: float = 1.0
    causal: bool = True
    biases: bool = False
    start_token: int | None = None
    init_scale: float = 1.0
    init_embed: float = 1.0

    def __post_init__(self) -> None:
        self.general()

    def general(self) -> "TransformerSpec":
        """The same model as a `TransformerSpec`."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return TransformerSpec(**own, n_ctx=None, positions=Positions.none)


@dataclass(frozen=True)
class TransformerSpec:
    """A decoder-only transformer: attention-only when ``d_mlp`` is None, else with MLPs; pre-LN.

    The defaults are the attention-only family of the circuits papers at small size: shortformer
    positions, norm at every read. ``positions=learned, norm=layernorm, d_mlp=...`` gives S2's.

    Args:
        d_vocab: Tokens, the start token included.
        n_ctx: Longest text; size of ``W_pos`` where the scheme has one. None without limit.
        n_layers: Number of layers, 0 or more.
        n_heads: Heads of a layer.
        d_model: Width of the stream.
        d_head: Width of queries and keys; None for ``d_model / n_heads``.
        d_value: Width of values; None for ``d_head``.
        d_mlp: Units of a hidden layer of the MLP; None for no MLP.
        mlp_depth: Hidden layers of the MLP, each of ``d_mlp`` units and with the activation.
        gated: Gated MLP, of one hidden layer.
        activation: Of the MLP.
        positions: Position scheme.
        norm: Norm at every read of the stream.
        norm_eps: ε inside its root.
        final_norm: Whether the unembedding reads through a norm.
        parallel: MLP beside attention instead of after it (E29).
        score_scale: Factor on scores; None for ``1/sqrt(d_head)``.
        causal: Mask the future (E12).
        smeared_keys: Each key is mixed with the one before it.
        biases: Declare biases of attention, MLP and unembedding.
        start_token: Id that training puts in front of every text; None for none.
        init_scale: Factor on the standard deviation ``1/sqrt(fan_in)`` of every map.
        init_embed: Root mean square norm of an embedding row.
        rotary_base: Longest wavelength over 2π of rotary and sinusoidal positions.

    Raises:
        ValueError: If a size is impossible or two options exclude each other.

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
        self.forward_spec()

    @property
    def head_width(self) -> int:
        return self.d_model // self.n_heads if self.d_head is None else self.d_head

    @property
    def value_width(self) -> int:
        return self.head_width if self.d_value is None else self.d_value

    def forward_spec(self) -> ForwardSpec:
        """What the kernel's forward pass needs besides weights."""
        scale = self.head_width**-0.5 if self.score_scale is None else self.score_scale
        return ForwardSpec(
            score_scale=scale,
            causal=self.causal,
            positions=self.positions,
            norm=self.norm,
            norm_eps=self.norm_eps,
            final_norm=self.final_norm,
            activation=self.activation,
            parallel=self.parallel,
            rotary_base=self.rotary_base,
        )


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"{name}={value} must be at least {least}")
