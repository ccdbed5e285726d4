"""Damaged files and weights of the wrong shape are refused, by the name they have on disk."""

import copy
import json
import math
import re
import shutil
import sys
import tracemalloc
import types
from functools import reduce
from pathlib import Path
from pickle import UnpicklingError

import numpy as np
import pytest
from safetensors.numpy import load_file

from circuitax.models import pretrained
from circuitax.models.hub_config import spec_from_hub
from circuitax.models.lens_format import model_from_lens, spec_from_config
from circuitax.models.pretrained import load_pretrained
from circuitax.models.sources import tensors_of

FOLDER = Path(__file__).parent.parent / "fixtures" / "transformer_lens" / "standard_None"
FAMILY_FOLDER = Path(__file__).parent.parent / "fixtures" / "families"
FAMILIES = sorted(path.parent.name for path in FAMILY_FOLDER.glob("*/config.json"))
CONFIG = json.loads((FOLDER / "config.json").read_text())


@pytest.mark.parametrize(
    ("key", "shape", "message"),
    [
        ("embed.W_E", (2, 11, 16), r"has shape \(2, 11, 16\), must be \(11, 16\)"),
        ("blocks.1.attn.W_Q", (4, 16, 5), r"has shape \(4, 16, 5\), must be \(4, 16, 4\)"),
        ("blocks.0.attn.b_O", (), r"has shape \(\), must be \(16,\)"),
    ],
)
def test_wrong_shapes_are_named_as_in_the_file(
    key: str, shape: tuple[int, ...], message: str
) -> None:
    state = load_file(FOLDER / "model.safetensors")
    with pytest.raises(ValueError, match=f"weight '{re.escape(key)}' {message}"):
        model_from_lens(
            tensors_of(state | {key: np.ones(shape)}), spec_from_config(CONFIG), np.float32
        )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (b'{"n_layers": 2,', r"config\.json must be JSON: Expecting property name"),
        (b"\xff\x00", r"config\.json must be JSON: "),
        (b"[1, 2]", r"config\.json holds a list, must hold a JSON object"),
    ],
)
def test_damaged_configs_are_named(tmp_path: Path, config: bytes, message: str) -> None:
    (tmp_path / "config.json").write_bytes(config)
    with pytest.raises(ValueError, match=message):
        load_pretrained(tmp_path)


def test_damaged_weights_are_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    whole = (FOLDER / "model.safetensors").read_bytes()
    (tmp_path / "m.safetensors").write_bytes(whole[:5000])
    with pytest.raises(ValueError, match=r"m\.safetensors must be a safetensors file: Error while"):
        load_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("held", "message"),
    [
        (
            RuntimeError("PytorchStreamReader failed"),
            "must be a state dict saved by torch: Pytorch",
        ),
        (EOFError("Ran out of input"), "must be a state dict saved by torch: Ran out of input"),
        (UnpicklingError("Weights only"), "must be a state dict saved by torch: Weights only"),
        ([1, 2], "holds a list, must hold tensors by name"),
        ({"model": {}, "step": 3}, "holds a dict, must hold tensors by name"),
    ],
)
def test_damaged_pth_files_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: object, message: str
) -> None:
    torch_reads(held, tmp_path, monkeypatch)
    with pytest.raises(ValueError, match=rf"model_final\.pth {message}"):
        load_pretrained(tmp_path)


def test_a_file_that_cannot_be_opened_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch_reads(PermissionError("not yours"), tmp_path, monkeypatch)
    with pytest.raises(PermissionError, match="not yours"):
        load_pretrained(tmp_path)


# Of another kind, out of range, without end: no setting of any family takes all of them.
WRONG = (-1, 0, 0.5, 10**9, 10**400, math.inf, math.nan, True, "x", [1], {"a": 1}, None)


@pytest.mark.parametrize("name", FAMILIES)
def test_wrong_settings_of_the_hub_cost_one_line(name: str) -> None:
    config = json.loads((FAMILY_FOLDER / name / "config.json").read_text())
    places = [(key,) for key in config]
    for rope in ("rope_parameters",):
        groups = config.get(rope) or {}
        places += [(rope, key) for key in groups]
        places += [(rope, a, b) for a in groups if isinstance(groups[a], dict) for b in groups[a]]
    refused = 0
    for place in places:
        for value in WRONG:
            changed = copy.deepcopy(config)
            *parents, last = place
            reduce(dict.__getitem__, parents, changed)[last] = value
            try:
                spec_from_hub(changed)
            except ValueError as error:
                refused += 1
                assert "\n" not in str(error) and len(str(error)) < 300, (place, value)
    assert refused > 30


@pytest.mark.parametrize(("folder", "key"), [("llama", "num_hidden_layers"), ("", "n_layers")])
@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (10**8, "is 100000000, must be a size that fits into the [0-9]+ bytes of the weights"),
        (10**400, "is about 1e400, must be a size that fits into"),
        (5000, "n_layers=5000 must be at most [0-9]+, the number of weights"),
    ],
)
def test_sizes_are_checked_against_the_file_first(
    tmp_path: Path, folder: str, key: str, layers: int, message: str
) -> None:
    source = FAMILY_FOLDER / folder if folder else FOLDER
    config = json.loads((source / "config.json").read_text()) | {key: layers}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").symlink_to(source / "model.safetensors")
    load_pretrained(source)  # what reading imports is no array
    tracemalloc.start()
    with pytest.raises(ValueError, match=message):
        load_pretrained(tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5e6


def test_deep_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"config\.json must be JSON: it is nested too deeply"):
        load_pretrained(tmp_path)
    shutil.copy(FAMILY_FOLDER / "llama" / "config.json", tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map":' * 100_000)
    with pytest.raises(ValueError, match="must be JSON with a 'weight_map'"):
        load_pretrained(tmp_path)


def torch_reads(held: object, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a .pth file, of which a stand-in for torch reads ``held``, or raises it."""

    def load(path: Path, *, weights_only: bool, map_location: str) -> object:
        if isinstance(held, Exception):
            raise held
        return held

    monkeypatch.setattr(pretrained, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(load=load))
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "model_final.pth").write_bytes(bytes(1000))
