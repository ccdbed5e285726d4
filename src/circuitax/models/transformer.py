"""Linen modules of transformers: they declare parameters and call the kernel's forward pass."""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, Int, Key

from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import Interventions, Trace
from circuitax.kernel.weights import TransformerWeights
from circuitax.models.extract_transformer import assemble, weights_from_variables
from circuitax.models.parameters import draw_parameters, transformer_parameters
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
    def weights(self) -> TransformerWeights:
        """Declare the parameters; as ``init``'s method it draws them without a forward pass."""
        parameters = transformer_parameters(self.spec)
        drawn: dict[str, Array] = {}
        if self.is_initializing():
            drawn = draw_parameters(self.make_rng("params"), parameters, self.param_dtype)

        def initial(_: Array, name: str) -> Array:
            # All were drawn together; when the model is applied, Linen asks for shapes only.
            return drawn[name] if drawn else jnp.zeros(parameters[name].shape, self.param_dtype)

        return assemble({name: self.param(name, initial, name) for name in parameters})

    def __call__(
        self,
        tokens: Int[Array, " n_ctx"],
        interventions: Interventions | None = None,
        *,
        outputs: bool = False,
    ) -> tuple[Float[Array, "n_ctx d_vocab"], Trace]:
        spec = self.spec.forward_spec()
        return forward(self.weights(), tokens, spec, interventions, outputs=outputs)


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
    """Fresh weights of a `Transformer`; vmap over keys for an ensemble, jit to draw all at once."""
    variables = Transformer(spec, param_dtype).init(key, method="weights")
    return weights_from_variables(variables, spec)
