"""Training of all seeds of one module on a text, measured along the way."""

from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Array, Key

from circuitax.kit.measured_training import Trained, measured_training
from circuitax.lab.lab import Lab
from circuitax.models.parameters import model_from_params
from circuitax.models.transformer import Transformer
from circuitax.training.language import LanguageModule, train_on_text
from circuitax.training.optim import OptimSpec


def text_arm(
    lab: Lab,
    name: str,
    key: Key[Array, ""],
    module: LanguageModule,
    optim: OptimSpec,
    tokens: np.ndarray,
    *,
    batch: int,
    length: int,
    seeds: int,
    every: int,
    **how: Any,
) -> Trained:
    """`language_arm` on a text of any size; ``how`` is passed to `measured_training`."""
    state, train = train_on_text(
        key,
        module,
        optim,
        tokens,
        batch=batch,
        length=length,
        seeds=seeds,
        chunk=every,
        mesh=lab.mesh,
    )
    if isinstance(module, Transformer):
        how["as_models"] = partial(model_from_params, spec=module.spec)
    return measured_training(lab, name, state, train, steps=optim.steps, every=every, **how)
