"""Sources of models by name or path: a folder, one file, a package, a repository."""

import json
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from circuitax.kernel.checks import shortened
from circuitax.models.smollm2 import smollm2_file

# Names of the settings that count layers, heads, tokens and entries, in all formats. Longest texts
# are not among them: a model may have no array for its positions.
SIZES = (
    *("n_layer", "n_layers", "num_hidden_layers", "n_head", "n_heads", "num_attention_heads"),
    *("n_key_value_heads", "num_key_value_heads", "n_embd", "d_model", "hidden_size", "d_head"),
    *("head_dim", "n_inner", "d_mlp", "intermediate_size", "d_vocab", "vocab_size"),
)


class Source(NamedTuple):
    """Location and format of a model.

    Attributes:
        path: A folder or one weight file.
        kind: ``"gguf"``, ``"hub"`` or ``"lens"``.
        config: The content of ``config.json`` where there is one.
    """

    path: Path
    kind: str
    config: Mapping[str, Any] | None


def find_source(source: str | Path, config: Mapping[str, Any] | None = None) -> Source:
    """Location and format of the model of a name or path."""
    check_path("source", source)
    if config is not None and not isinstance(config, Mapping):
        raise ValueError(f"config={shortened(config)} must be a dict of settings")
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


def check_path(name: str, value: Any) -> None:
    """Require a path, or the text of one."""
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError(f"{name}={shortened(value)} must be a path, or the text of one")


def read_config(file: Path) -> Mapping[str, Any]:
    """The JSON object of a ``config.json``."""
    try:
        config = json.loads(file.read_bytes())
    except ValueError as error:
        raise ValueError(f"{file} must be JSON: {error}") from None
    except RecursionError:
        raise ValueError(f"{file} must be JSON: it is nested too deeply") from None
    if not isinstance(config, dict):
        raise ValueError(f"{file} holds a {type(config).__name__}, must hold a JSON object")
    return config


def require_sizes(config: Mapping[str, Any], files: Iterable[Path]) -> None:
    """Refuse sizes too large for the weight files, before anything of such a size is allocated."""
    n_bytes = sum(file.stat().st_size for file in files)
    for key in SIZES:
        size = config.get(key)
        if isinstance(size, int) and size > n_bytes:
            shown = str(size) if size < 10**12 else f"about 1e{len(str(size)) - 1}"
            raise ValueError(
                f"config key {key!r} is {shown}, must be a size that fits into the {n_bytes} "
                "bytes of the weights"
            )


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
