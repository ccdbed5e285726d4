"""What the weights of a transformer alone do not say."""

import math
from dataclasses import dataclass

from circuitax.kernel.activations import Activation
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions


@dataclass(frozen=True)
class ForwardSpec:
    """What the weights alone do not say. Hashable, hence a static argument under jit.

    Args:
        score_scale: Factor on ``⟨q, k⟩``; ``1/sqrt(d_head)`` in trained models, 1 in S0 (E13).
        causal: Whether a position reads only itself and earlier ones (E12).
        positions: Position scheme.
        norm: Norm before every read of the stream.
        norm_eps: ε inside its root.
        final_norm: Whether the unembedding reads through a norm as well.
        activation: Of the MLP, when the weights have one.
        parallel: MLP and attention read the same stream, ``r + Attn(r) + MLP(r)``, as S2 prints
            while its pipeline is sequential (E29). Only for models built so.
        rotary_base: Longest wavelength over 2π of rotary and sinusoidal positions.

    Raises:
        ValueError: If ``score_scale`` is not finite, or ``norm_eps`` or ``rotary_base`` is
            not positive.
    """

    score_scale: float
    causal: bool = True
    positions: Positions = Positions.none
    norm: Norm = Norm.none
    norm_eps: float = 1e-5
    final_norm: bool = False
    activation: Activation = Activation.gelu
    parallel: bool = False
    rotary_base: float = 10_000.0

    def __post_init__(self) -> None:
        if not math.isfinite(self.score_scale):
            raise ValueError(f"score_scale={self.score_scale} must be finite")
        if not self.norm_eps > 0:
            raise ValueError(f"norm_eps={self.norm_eps} must be positive")
        if not self.rotary_base > 0:
            raise ValueError(f"rotary_base={self.rotary_base} must be positive")
