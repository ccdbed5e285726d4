"""Thousands of damaged models: each is read or refused in one line, in 2 s and 1 GB.

Damage knows the formats: it changes one setting, one entry of a header, one length, and only then
single bytes. What is refused must say so; nothing else may come out of the reader.
"""

import json
import os
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circuitax.models.pretrained import load_pretrained, load_tokenizer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.access("/proc/self/clear_refs", os.W_OK), reason="the most memory is Linux's to tell"
    ),
]
LENS = Path(__file__).parent.parent / "fixtures" / "transformer_lens" / "shortformer_LN"
SECONDS, BYTES = 2.0, 2**30
HUGE = (2**31 - 1, 2**31, 2**32, 2**33, 2**40, 2**63 - 1, 2**63, 2**64 - 32, 2**64 - 1)
NUMBERS = st.sampled_from([*HUGE, *(-n for n in HUGE), -1, 0, 1, 2, 3]) | st.integers(-9, 99)
PADDED = {"strategy": {"Fixed": 2**31}, "direction": "Right", "pad_to_multiple_of": None}
PADDED |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "a"}
CUT = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
SPLIT = {"type": "Split", "pattern": {"Regex": "(x+x+)+y"}, "behavior": "Isolated", "invert": False}
VALUES = (
    NUMBERS
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from([None, True, False, [], {}, [[]], [1, "a"], {"a": 1}, "false", "a b", "../x"])
    | st.sampled_from([PADDED, CUT, SPLIT, 10**400, "gpt2", "gemma3_text", "linear", "x" * 5000])
)
TYPES = st.sampled_from(["F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "F4", "F6_E2M3"])
TYPES |= st.sampled_from(["I64", "I32", "I8", "U8", "U64", "BOOL", "C64", "X", ""])
SHAPES = st.lists(NUMBERS, max_size=4)
KINDS = st.integers(0, 13)
TEXT = "abcd ab cd xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"


def memory(name: str) -> int:
    """Bytes that are in use (``VmRSS``) or were at most (``VmHWM``)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])


def read(source: Path) -> int:
    """How many of model and tokenizer are read; what is refused must be so in one line."""

    def text() -> None:
        tokenizer = load_tokenizer(source)
        assert tokenizer.truncation is None and tokenizer.padding is None

    loads: list[Callable[[], object]] = [lambda: load_pretrained(source), text]
    Path("/proc/self/clear_refs").write_text("5")  # the most begins anew
    before, in_use, n_read = time.process_time(), memory("VmRSS"), 0
    for load in loads:
        try:
            load()
            n_read += 1
        except (ValueError, FileNotFoundError) as error:
            assert "\n" not in str(error) and 10 < len(str(error)) < 700, str(error)
    assert time.process_time() - before < SECONDS
    assert memory("VmHWM") - in_use < BYTES
    return n_read


def places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every entry of nested JSON, as what holds it and its key."""
    keys = range(len(tree)) if isinstance(tree, list) else list(tree)
    for key in keys:
        yield tree, key
        if isinstance(tree[key], dict | list):
            yield from places(tree[key])


def damage_json(data: st.DataObject, tree: dict[str, Any]) -> None:
    found = list(places(tree))
    if not found:
        return
    inside, key = found[data.draw(st.integers(0, len(found) - 1))]
    if data.draw(st.integers(0, 5)):
        inside[key] = data.draw(VALUES)
    else:
        del inside[key]


def damage_weights(data: st.DataObject, head: dict[str, Any]) -> None:
    name = data.draw(st.sampled_from(sorted(head)))
    match data.draw(st.sampled_from(["dtype", "shape", "data_offsets", "name", "none"])):
        case "dtype":
            head[name] = head[name] | {"dtype": data.draw(TYPES)}
        case "shape":
            head[name] = head[name] | {"shape": data.draw(SHAPES)}
        case "data_offsets":
            head[name] = head[name] | {"data_offsets": data.draw(st.lists(NUMBERS, max_size=3))}
        case "name":
            head[data.draw(st.text(max_size=4))] = head.pop(name)
        case _:
            del head[name]


def damage_bytes(data: st.DataObject, raw: bytes, most: int) -> bytes:
    """Bytes changed, left out or added, among the first ``most``."""
    at = data.draw(st.integers(0, min(most, len(raw)) - 1)) if raw else 0
    match data.draw(st.sampled_from(["flip", "cut", "add", "long"])):
        case "flip":
            return raw[:at] + bytes([data.draw(st.integers(0, 255))]) + raw[at + 1 :]
        case "cut":
            return raw[:at]
        case "add":
            return raw[:at] + data.draw(st.binary(max_size=9)) + raw[at:]
        case _:
            length = struct.pack("<Q", data.draw(st.sampled_from(HUGE)))
            return raw[:at] + length + raw[at + 8 :]


def safetensors(raw: bytes) -> tuple[dict[str, Any], bytes]:
    (length,) = struct.unpack("<Q", raw[:8])
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


@pytest.mark.parametrize(("lens", "cases"), [(False, 1200), (True, 600)])
def test_damaged_folders(hub: Path, lens: bool, cases: int) -> None:
    """Folders of the Hub, and of TransformerLens."""
    if lens:
        for name in ("config.json", "model.safetensors"):
            (hub / name).write_bytes((LENS / name).read_bytes())
    files = {path.name: path.read_bytes() for path in hub.iterdir()}
    whole = {name: json.loads(files[name]) for name in ("config.json", "tokenizer.json")}
    outcomes = [0, 0, 0]

    @settings(max_examples=cases, database=None)
    @given(st.data())
    def case(data: st.DataObject) -> None:
        written = dict(files)
        for _ in range(data.draw(st.integers(1, 2))):
            match data.draw(st.sampled_from(["json", "weights", "index", "bytes", "kind"])):
                case "json":
                    name = data.draw(st.sampled_from(sorted(whole)))
                    tree = json.loads(json.dumps(whole[name]))
                    damage_json(data, tree)
                    written[name] = json.dumps(tree).encode()
                case "weights":
                    head, values = safetensors(files["model.safetensors"])
                    damage_weights(data, head)
                    encoded = json.dumps(head).encode()
                    raw = struct.pack("<Q", len(encoded)) + encoded + values
                    written["model.safetensors"] = raw
                case "index":
                    index = {"weight_map": {"w": "model.safetensors"}}
                    damage_json(data, index)
                    written["model.safetensors.index.json"] = json.dumps(index).encode()
                case "bytes":
                    name = data.draw(st.sampled_from(sorted(files)))
                    written[name] = damage_bytes(data, files[name], 4000)
                case _:
                    written[data.draw(st.sampled_from(sorted(files)))] = b""
        for path in hub.iterdir():
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()
        for name, raw in written.items():
            if raw:
                (hub / name).write_bytes(raw)
            else:
                odd_file(data, hub / name)
        outcomes[read(hub)] += 1

    read(hub)
    case()
    assert min(outcomes) > 20, outcomes


def odd_file(data: st.DataObject, place: Path) -> None:
    """What is there instead of a file."""
    match data.draw(st.sampled_from(["nothing", "empty", "folder", "loop", "zeros", "pipe"])):
        case "empty":
            place.touch()
        case "folder":
            place.mkdir()
        case "loop":
            place.symlink_to(place)
        case "zeros":
            place.symlink_to("/dev/zero")
        case "pipe":
            os.mkfifo(place)


def gguf_value(data: st.DataObject, kind: int, letters: dict[int, str], items: type) -> Any:
    """A value that can be written down as its kind."""
    if kind == 8:
        return data.draw(st.text(max_size=4) | st.binary(max_size=4) | st.just("llama"))
    if kind == 9:
        inner = data.draw(KINDS.filter(lambda k: k in letters or k == 8))
        listed = [gguf_value(data, inner, letters, items) for _ in range(data.draw(NUMBERS) % 4)]
        return items(inner, listed, data.draw(st.none() | NUMBERS.map(lambda n: n % 2**64)))
    size = struct.calcsize("<" + letters[kind])
    raw = data.draw(st.binary(min_size=size, max_size=size) | st.just(bytes(size)))
    return struct.unpack("<" + letters[kind], raw)[0]


def damage_gguf(data: st.DataObject, said: Any, letters: dict[int, str], items: type) -> Any:
    key = data.draw(st.sampled_from(sorted(said.keys)))
    name = data.draw(st.sampled_from(sorted(said.tensors)))
    match data.draw(st.sampled_from(["key", "gone", "list", "tensor", "names", "count"])):
        case "key":
            kind = data.draw(st.sampled_from([*letters, 8, 9]))
            return said.with_key(key, kind, gguf_value(data, kind, letters, items))
        case "gone":
            return said._replace(keys={k: v for k, v in said.keys.items() if k != key})
        case "list":
            lists = [k for k, (kind, value) in said.keys.items() if kind == 9 and value.items]
            if not lists:
                return said
            chosen = data.draw(st.sampled_from(lists))
            value = said.keys[chosen][1]
            at = data.draw(st.integers(0, len(value.items) - 1))
            new = gguf_value(data, value.kind, letters, items)
            listed = [*value.items[:at], new, *value.items[at + 1 :]]
            return said.with_key(chosen, 9, value._replace(items=listed))
        case "tensor":
            change = data.draw(
                st.fixed_dictionaries(
                    {},
                    optional={
                        "shape": st.lists(NUMBERS.map(lambda n: n % 2**64), max_size=4),
                        "kind": st.integers(0, 45) | st.just(2**32 - 1),
                        "offset": NUMBERS.map(lambda n: n % 2**64),
                    },
                )
            )
            return said.with_tensor(name, **change)
        case "names":
            new = data.draw(st.sampled_from(["blk.0", "blk.0.x.y.z", "blk..attn_q.weight", "x"]))
            return said._replace(tensors={**said.tensors, new: said.tensors[name]})
        case _:
            n = data.draw(NUMBERS.map(lambda n: n % 2**64))
            return said._replace(**{data.draw(st.sampled_from(["n_keys", "n_tensors"])): n})


def test_damaged_gguf_files(gguf: Any, written: Callable[[Any], Path]) -> None:
    letters = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i"}
    letters |= {6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
    items = type(gguf.keys["tokenizer.ggml.tokens"][1])
    outcomes = [0, 0, 0]

    @settings(max_examples=800, database=None)
    @given(st.data())
    def case(data: st.DataObject) -> None:
        said = gguf
        for _ in range(data.draw(st.integers(1, 2))):
            said = damage_gguf(data, said, letters, items)
        file = written(said)
        if not data.draw(st.integers(0, 2)):
            file.write_bytes(damage_bytes(data, file.read_bytes(), 2500))
        outcomes[read(file)] += 1

    read(written(gguf))
    case()
    assert min(outcomes) > 20, outcomes
