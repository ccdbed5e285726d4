"""Model files that say one thing and hold another are refused in one line, before they cost."""

import copy
import json
import math
import shutil
import tracemalloc
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from circuitax.kernel.forward import forward
from circuitax.models import hub_weights
from circuitax.models.hub_config import read_hub
from circuitax.models.pretrained import load_pretrained, load_tokenizer

TEXT = "abcd ab cd a abcd"
LENS = Path(__file__).parent.parent / "fixtures" / "transformer_lens" / "standard_None"
CUT = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
PADDED = {
    "strategy": {"Fixed": 2**31},
    "direction": "Right",
    "pad_to_multiple_of": None,
    "pad_id": 0,
    "pad_type_id": 0,
    "pad_token": "a",
}
I8, F64, I64 = 24, 28, 27  # kinds of tensors in GGUF files


def refused(load: Callable[[Any], object], source: object, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        load(source)
    assert "\n" not in str(error.value) and len(str(error.value)) < 400


def test_the_folder_and_the_file_are_read(hub: Path, gguf: Any, written: Any) -> None:
    for source in (hub, written(gguf)):
        model, tokenizer = load_pretrained(source), load_tokenizer(source)
        assert tokenizer.encode(TEXT).tokens == ["abcd", "Ġab", "Ġcd", "Ġa", "Ġ", "abcd"]
        logits = forward(model, jnp.asarray(tokenizer.encode(TEXT).ids))[0]
        assert bool(jnp.isfinite(logits).all()) and float(jnp.std(logits)) > 0.01


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("truncation",), CUT),
        (("padding",), PADDED),
        (("model", "dropout"), 1.0),
    ],
)
def test_a_tokenizer_reads_all_of_a_text_and_always_alike(
    hub: Path, place: tuple[str, ...], value: Any
) -> None:
    whole = load_tokenizer(hub).encode(TEXT).ids
    settings = json.loads((hub / "tokenizer.json").read_text())
    inside = settings if len(place) == 1 else settings[place[0]]
    assert place[-1] in inside
    inside[place[-1]] = value
    (hub / "tokenizer.json").write_text(json.dumps(settings))
    assert load_tokenizer(hub).encode(TEXT).ids == whole


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64, np.uint8, np.bool_])
def test_weights_that_are_no_floats_are_refused(hub: Path, tmp_path: Path, kind: type) -> None:
    lens = tmp_path / "lens"
    lens.mkdir()
    (lens / "config.json").write_bytes((LENS / "config.json").read_bytes())
    save_file(load_file(LENS / "model.safetensors"), lens / "model.safetensors")
    for folder, name in ((hub, "model.norm.weight"), (lens, "embed.W_E")):
        state = load_file(folder / "model.safetensors")
        state[name] = state[name].astype(kind)
        save_file(state, folder / "model.safetensors")
        refused(
            load_pretrained, folder, rf"weight '{name}' is of type \w+, must be one of F64, F32"
        )


def test_buffers_may_be_of_any_type(hub: Path) -> None:
    before = load_pretrained(hub)
    state = load_file(hub / "model.safetensors")
    state["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.arange(3)
    save_file(state, hub / "model.safetensors")
    jax.tree.map(np.testing.assert_array_equal, before.named(), load_pretrained(hub).named())


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["../outside.safetensors"], "names '../outside.safetensors', must name files beside it"),
        (["/ABSOLUTE/outside.safetensors"], "names '/.+, must name files beside it"),
        (["in/side.safetensors"], "names 'in/side.safetensors', must name files beside it"),
        ([3], "names 3, must name files beside it"),
        ([3, "model.safetensors"], "must be JSON with a 'weight_map' of file names"),
        ([["model.safetensors"]], "must be JSON with a 'weight_map' of file names"),
        ([""], "must name files beside it"),
        ([".."], "must name files beside it"),
        (["none\0.safetensors"], "must name files beside it"),
    ],
)
def test_shards_lie_beside_their_index(hub: Path, names: list[Any], message: str) -> None:
    whole = hub / "model.safetensors"
    (hub / "in").mkdir()
    for place in (hub.parent / "outside.safetensors", hub / "in" / "side.safetensors"):
        place.write_bytes(whole.read_bytes())
    absolute = str(hub.parent)
    places = {
        f"w{i}": name.replace("/ABSOLUTE", absolute) if isinstance(name, str) else name
        for i, name in enumerate(names)
    }
    index = hub / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": places}))
    refused(load_pretrained, hub, message)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
@pytest.mark.parametrize("kind", ["folder", "loop", "empty"])
def test_what_is_no_file_is_named(hub: Path, name: str, kind: str) -> None:
    place = hub / name
    place.unlink()
    if kind == "folder":
        place.mkdir()
    elif kind == "loop":
        place.symlink_to(place)
    else:
        place.touch()
    load = load_tokenizer if name == "tokenizer.json" else load_pretrained
    named = rf"{hub}(/{name} (is missing, must|must be)| must hold one \.safetensors)"
    refused(load, hub, rf"{named}|the 0 bytes of the weights")
    if name == "model.safetensors" and kind == "folder":
        refused(load_pretrained, place, "config.json is missing")


@pytest.mark.parametrize(
    ("key", "kind", "value", "message"),
    [
        ("llama.attention.head_count", 4, 0, "is 0, must be from 1 to"),
        ("llama.attention.head_count", 9, (4, [2, 2]), r"is \[2, 2\], must be an integer"),
        ("llama.attention.head_count", 8, "two", "is 'two', must be an integer"),
        ("llama.attention.head_count", 6, 2.0, "is 2.0, must be an integer"),
        ("llama.block_count", 5, -1, "is -1, must be from 0 to"),
        ("llama.block_count", 10, 2**63, "is 9223372036854775808, must be from 0 to"),
        ("llama.rope.dimension_count", 10, 2**31, "is 2147483648, must be from 2 to 4$"),
        ("llama.rope.freq_base", 8, "x", "is 'x', must be a positive number"),
        ("llama.rope.scaling.type", 9, (8, ["linear"]), "must be none or linear"),
        ("llama.expert_count", 8, "", "is '', must be 0: it may change numbers"),
        ("general.architecture", 9, (8, ["llama"]), r"is \['llama'\], must be a str"),
        ("general.architecture", 8, b"\xff", "'general.architecture' must be in UTF-8"),
        ("tokenizer.ggml.tokens", 8, "abc", "is 'abc', must be a list"),
    ],
)
def test_settings_of_a_gguf_file_have_kinds_and_bounds(
    gguf: Any, written: Any, key: str, kind: int, value: Any, message: str
) -> None:
    said = gguf.with_key(key, kind, listed(gguf, *value) if kind == 9 else value)
    tracemalloc.start()
    refused(load_pretrained, written(said), message)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1e7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offset": 2**64 - 32}, "must be a GGUF file: "),
        ({"offset": 2**40}, "must be a GGUF file: it has [0-9]+ bytes, and names byte 1[0-9]{12}"),
        ({"shape": (2**40, 8)}, "must be a GGUF file: it has"),
        ({"shape": (2**32, 2**32)}, "must be a GGUF file: "),
        ({"shape": ()}, r"weight 'embed_tokens.weight' has shape \(\), must be \(12, 8\)"),
        ({"kind": I8}, "weight 'embed_tokens.weight' is of type I8, must be"),
        ({"kind": F64, "shape": (6, 8)}, r"has shape \(6, 8\), must be \(12, 8\)"),
        ({"kind": 999}, "must be a GGUF file: .*999.* is not a valid"),
    ],
)
def test_tensors_of_a_gguf_file_lie_in_it(
    gguf: Any, written: Any, change: dict[str, Any], message: str
) -> None:
    said = gguf.with_tensor("token_embd.weight", **change)
    refused(load_pretrained, written(said), message)


@pytest.mark.parametrize("kind", [0, 4, 8])
def test_a_list_longer_than_its_file_is_refused_at_once(gguf: Any, written: Any, kind: int) -> None:
    items = listed(gguf, kind, [])._replace(length=2**33)
    file = written(gguf.with_key("tokenizer.ggml.tokens", 9, items)._replace(tensors={}, data=b""))
    for load in (load_pretrained, load_tokenizer):
        refused(load, file, "must be a GGUF file: it has [0-9]+ bytes, and names byte")


def test_weights_larger_than_memory_are_refused(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_weights, "machine_bytes", lambda: 3000)
    for folder, needed in ((hub, r"4\.0e"), (LENS, r"1\.1e\+04")):
        few = rf"would take {needed}.* bytes as float32, must fit into the 3\.0e"
        refused(load_pretrained, folder, few)


def listed(gguf: Any, kind: int, items: list[Any]) -> Any:
    """A list for a GGUF file."""
    return type(gguf.keys["tokenizer.ggml.tokens"][1])(kind, items)


def test_what_the_library_of_tokenizers_cannot_read_is_one_line(
    hub: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = json.loads((hub / "tokenizer.json").read_text())
    model = settings["model"]
    for wrong in (
        {"model": model | {"merges": [["a", "c"]]}},
        {"model": model | {"merges": [["a"]]}},
        {"model": model | {"vocab": {"a": -1}}},
        {"model": {"type": "Unknown"}},
        {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated"}},
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
    ):
        (hub / "tokenizer.json").write_text(json.dumps(settings | wrong))
        refused(load_tokenizer, hub, "tokenizer.json must be a tokenizer.json: ")
    assert capfd.readouterr().err == ""


FAMILY_FOLDER = Path(__file__).parent.parent / "fixtures" / "families"
FAMILIES = sorted(path.parent.name for path in FAMILY_FOLDER.glob("*/config.json"))


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
                read_hub(changed)
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
    source = FAMILY_FOLDER / folder if folder else LENS
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
