"""The Linen module of a transformer: it declares parameters and calls `kernel.forward`.

Sources (docs/bibliography.md): S0 is "Some Structures in Transformer Architectures" and S2 the
attention chapter.
"""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, Int, Key

from circuitax.kernel.checks import check_float_type
from circuitax.kernel.forward import batch_logits, forward
from circuitax.kernel.keys import check_key
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.parameters import draw_parameters, model_from_params, transformer_parameters


class Transformer(nn.Module):
    """A decoder-only transformer of a spec, for training.

    Source: S0 section 2.2 and Definition 12; S2, "The Full Transformer".
    """

    spec: TransformerSpec
    param_dtype: DTypeLike = float

    @property
    def start_token(self) -> int | None:
        """The id of the start token that training puts before every text."""
        return self.spec.start_token

    @property
    def n_ctx(self) -> int | None:
        """The maximum length of a text."""
        return self.spec.n_ctx

    @nn.compact
    def model(self) -> Model:
        """Declare the parameters; as ``init``'s method it draws them without a forward pass."""
        parameters = transformer_parameters(self.spec)
        drawn: dict[str, Array] = {}
        if self.is_initializing():
            drawn = draw_parameters(self.make_rng("params"), parameters, self.param_dtype)

        def initial(_: Array, name: str) -> Array:
            # All were drawn together; Linen asks for shapes only when the model is applied.
            return drawn[name] if drawn else jnp.zeros(parameters[name].shape, self.param_dtype)

        named = {name: self.param(name, initial, name) for name in parameters}
        return model_from_params(named, self.spec)

    def __call__(self, tokens: Int[Array, "*batch n_ctx"]) -> Float[Array, "*batch n_ctx d_vocab"]:
        """The logits of one text, or of a batch of texts."""
        model = self.model()
        return batch_logits(model, tokens) if tokens.ndim == 2 else forward(model, tokens)[0]


def init(key: Key[Array, ""], spec: TransformerSpec, param_dtype: DTypeLike = float) -> Model:
    """Fresh weights of a `Transformer`; vmap over keys for an ensemble, jit to draw all at once.

    Args:
        key: Decides every weight.
        spec: Sizes and options.
        param_dtype: As in `Transformer`.

    Raises:
        ValueError: If the key or the spec is none, or numbers of that type are no floating-point
            ones.
    """
    check_key(key, one=True)
    if not isinstance(spec, TransformerSpec):
        raise ValueError(f"spec={spec!r} must be a TransformerSpec")
    check_float_type("param_dtype", param_dtype)
    variables = Transformer(spec, param_dtype).init(key, method="model")
    return model_from_params(variables["params"], spec)
