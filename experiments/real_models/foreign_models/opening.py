"""The models' files: ``NAME.json`` and ``NAME.safetensors``, as TransformerLens names weights."""

import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp

from circuitax.kernel.model import Model
from circuitax.models.lens_format import model_from_lens, spec_from_config
from circuitax.models.sources import open_safetensors


def open_model(folder: Path, name: str) -> Model | None:
    """A model; None where the folder has neither of its files.

    Args:
        folder: Where the files are.
        name: Of the model, without the ending.

    Raises:
        ValueError: If a file is damaged, lacks its partner, or does not fit the other.
    """
    weights, settings = folder / f"{name}.safetensors", folder / f"{name}.json"
    if not weights.is_file() and not settings.is_file():
        return None
    config = _config(settings)
    if not weights.is_file():
        raise ValueError(f"{weights} must be a safetensors file: there is none")
    n_out = config.pop("d_vocab_out", None)  # a classifier's classes
    try:
        spec = spec_from_config(config).replace(d_vocab_out=n_out)
        with open_safetensors([weights]) as tensors:
            return model_from_lens(tensors, spec, jnp.result_type(float))
    except ValueError as error:
        raise ValueError(f"{name} in {folder}: {error}") from None


def _config(file: Path) -> dict[str, Any]:
    try:
        config = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"{file} must hold the model's settings: {error}") from None
    if not isinstance(config, dict):
        raise ValueError(f"{file} holds a {type(config).__name__}, must hold a JSON object")
    return config
