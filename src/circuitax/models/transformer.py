"""Linen modules of transformers: they declare parameters and call the kernel's forward pass."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, Int, Key

from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import Interventions, Trace
from circuitax.kernel.weights import TransformerWeights
from circuitax.models.extract_transformer import assemble
from circuitax.models.parameters import transformer_parameters
from circuitax.models.specs import SimplifiedSpec, TransformerSpec


class Transformer(nn.Module):
    """A decoder-only transformer: attention-only or pre-LN with MLPs, by its spec.

    Call it on one text; vmap over batches.

    Args:
        spec: Sizes and options.
        param_dtype: Of the parameters. Stated, because Linen keeps float32 even under x64.

    Source: S0 section 2.2; S2, "The Full Transformer".
    """

    spec: TransformerSpec
    param_dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(
        self,
        tokens: Int[Array, " n_ctx"],
        interventions: Interventions | None = None,
        *,
        outputs: bool = False,
    ) -> tuple[Float[Array, "n_ctx d_vocab"], Trace]:
        named = {
            name: self.param(name, parameter.draw, self.param_dtype)
            for name, parameter in transformer_parameters(self.spec).items()
        }
        spec = self.spec.forward_spec()
        return forward(assemble(named), tokens, spec, interventions, outputs=outputs)


class SimplifiedTransformer(nn.Module):
    """The simplified transformer of S0 Definition 12 between embedding and unembedding.

    Args:
        spec: Sizes and options.
        param_dtype: Of the parameters.

    Source: S0 Definition 12, sections 4 and 5.
    """

    spec: SimplifiedSpec
    param_dtype: DTypeLike = jnp.float32

    def setup(self) -> None:
        self.general = Transformer(self.spec.general(), self.param_dtype)
        nn.share_scope(self, self.general)

    def __call__(
        self,
        tokens: Int[Array, " n_ctx"],
        interventions: Interventions | None = None,
        *,
        outputs: bool = False,
    ) -> tuple[Float[Array, "n_ctx d_vocab"], Trace]:
        return self.general(tokens, interventions, outputs=outputs)


def init_weights(
    key: Key[Array, ""], spec: TransformerSpec, param_dtype: DTypeLike = jnp.float32
) -> TransformerWeights:
    """Fresh weights of a `Transformer`; vmap over keys for an ensemble."""
    variables = Transformer(spec, param_dtype).init(key, jnp.zeros(1, jnp.int32))
    return assemble(jax.tree.map(jnp.asarray, variables["params"]))
