"""Specs: a frozen dataclass as Hydra's schema, built from values, and its identity."""

import dataclasses
import enum
import hashlib
import json
import math
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import Container, DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from circuitax.config import ranges
from circuitax.display.tables import described
from circuitax.names import nearest

BY_SCALE = "by_scale"  # the resolver, as configurations write it
INPUT = "input"  # group of the fields that name runs to read
LARGEST = 2**63  # integers from here on are no longer those of arrays


class ConfigError(ValueError):
    """An invalid configuration; the message is one line."""


class Scale(enum.Enum):
    """Size of a run: seconds, minutes or an evening on two cores, or the published sizes."""

    tiny = "tiny"
    quick = "quick"
    evening = "evening"
    paper = "paper"


SCALES = tuple(Scale.__members__)


class Precision(enum.Enum):
    """Floating-point type of a run."""

    float32 = "float32"
    float64 = "float64"


@dataclass(frozen=True)
class RunSettings:
    """The settings common to all runs; ``again`` is no part of a run's identity."""

    experiment: str
    scale: Scale = Scale.quick
    seed: int = 0
    dtype: Precision = Precision.float32
    again: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"seed={self.seed} must be between 0 and {2**31 - 1}")


def register_resolvers() -> None:
    """Register ``${by_scale:tiny,quick,paper}`` and ``${by_scale:tiny,quick,evening,paper}``."""
    OmegaConf.register_new_resolver(BY_SCALE, _by_scale, replace=True)


def _by_scale(tiny: Any, quick: Any, *larger: Any, _root_: DictConfig) -> Any:
    if len(larger) not in (1, 2):
        raise ValueError(f"by_scale has {2 + len(larger)} values, must have three or four")
    evening, paper = (quick, *larger)[-2:]
    scale = _root_.scale
    name = scale.name if isinstance(scale, Scale) else str(scale)
    return {"tiny": tiny, "quick": quick, "evening": evening, "paper": paper}[name]


def register(name: str, spec: type, requires: tuple[str, ...] = ()) -> dict[str, Any]:
    """Register ``experiment=<name>`` with Hydra; returns the type of every field by dotted path.

    For each experiment that it ``requires`` there is a field ``input.NAME``, which names a run.
    """
    if not dataclasses.is_dataclass(spec):
        raise ValueError(f"spec={spec!r} of experiment {name!r} must be a dataclass")
    register_resolvers()
    ConfigStore.instance().store(
        group="spec",
        name=name,
        node=_node(name, spec, requires),
        package="_global_",
        provider="circuitax",
    )
    named = {INPUT: str, **{f"{INPUT}.{upstream}": str for upstream in requires}}
    return dict([*_fields(RunSettings), *_fields(spec)]) | (named if requires else {})


@cache  # Hydra's store copies a node before it composes anything into it
def _node(name: str, spec: type, requires: tuple[str, ...]) -> DictConfig:
    parts: dict[str, tuple[str, Any, Any]] = {}
    for kind in (RunSettings, spec):
        hints = typing.get_type_hints(kind)
        for item in dataclasses.fields(kind):
            if item.name in parts:
                raise ValueError(
                    f"field {item.name!r} of experiment {name!r} is a key of every run"
                )
            default = dataclasses.field(default=item.default, default_factory=item.default_factory)
            parts[item.name] = (item.name, hints[item.name], default)
    node = writable(dataclasses.make_dataclass("Fields", parts.values(), kw_only=True))
    OmegaConf.set_struct(node, False)  # Hydra adds keys of its own
    node.experiment = name
    if requires:
        node[INPUT] = dict.fromkeys(requires, "")
    return node


def writable(spec: type) -> DictConfig:
    """The typed, writable node of a frozen dataclass, for composing values into it."""
    node = OmegaConf.structured(spec)
    _thaw(node)
    return node


def _thaw(node: Container) -> None:
    OmegaConf.set_readonly(node, None)
    kind = OmegaConf.get_type(node)
    hints = typing.get_type_hints(kind) if dataclasses.is_dataclass(kind) else {}
    for key in range(len(node)) if isinstance(node, ListConfig) else list(node):
        if OmegaConf.is_missing(node, key):
            nested = _nested(hints.get(str(key)))
            if nested is None:
                continue
            node[key] = OmegaConf.structured(nested)  # its own fields say what is missing
        if not OmegaConf.is_interpolation(node, key) and isinstance(child := node[key], Container):
            _thaw(child)


def _fields(spec: type, prefix: str = "") -> Iterator[tuple[str, Any]]:
    hints = typing.get_type_hints(spec)
    for field in dataclasses.fields(spec):
        path = f"{prefix}{field.name}"
        yield path, hints[field.name]
        nested = _nested(hints[field.name])
        if nested is not None:
            yield from _fields(nested, f"{path}.")


def explained(spec: type, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every field of a spec by its path: meaning, what it may be, and the code's own default."""
    meanings, hints = described(spec), typing.get_type_hints(spec, include_extras=True)
    plain = typing.get_type_hints(spec)
    for field in dataclasses.fields(spec):
        nested, meaning = _nested(plain[field.name]), meanings.get(field.name, "")
        if nested is not None:
            yield f"{prefix}{field.name}", meaning
            yield from explained(nested, f"{prefix}{field.name}.")
            continue
        limits = "".join(f" {text}" for text in ranges.ranges_of(hints[field.name]))
        value = field.default.value if isinstance(field.default, enum.Enum) else field.default
        default = "" if value is dataclasses.MISSING else f"; default {value!r}"
        hint = plain[field.name]
        kind = "a value or a list" if hint is Any else type_name(hint)
        yield f"{prefix}{field.name}", f"{meaning} ({kind}{limits}{default})"


def _nested(hint: Any) -> type | None:
    for candidate in (hint, *typing.get_args(hint)):
        is_list = typing.get_origin(hint) is tuple
        if isinstance(candidate, type) and dataclasses.is_dataclass(candidate) and not is_list:
            return candidate
    return None


def type_name(hint: Any) -> str:
    """A type in the words of a message: ``an integer``, ``one of relu, linear``, ``a list``."""
    plain = {int: "an integer", float: "a number", bool: "true or false", str: "text"}
    if hint in plain:
        return plain[hint]
    if isinstance(hint, type) and hasattr(hint, "__members__"):
        return "one of " + ", ".join(hint.__members__)
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        return "a list, each item " + type_name(arguments[0])
    if type(None) in arguments:
        return " or ".join([*(type_name(a) for a in arguments if a is not type(None)), "null"])
    if dataclasses.is_dataclass(hint):
        return "a group of " + ", ".join(field.name for field in dataclasses.fields(hint))
    return str(hint)


def build(spec: type, config: DictConfig, prefix: str = "") -> Any:
    """The spec that a configuration describes, innermost specs first; lists become tuples."""
    hints = typing.get_type_hints(spec)
    values = {}
    for field in dataclasses.fields(spec):
        path = f"{prefix}{field.name}"
        value = _value(config, field.name, path, hints[field.name])
        if hints[field.name] is Any and isinstance(field.default, tuple) and field.default:
            value = _like(field.default, value if isinstance(value, tuple) else (value,), path)
        values[field.name] = value
    try:
        built = spec(**values)
        ranges.check(built)
        return built
    except ValueError as error:
        text = " ".join(str(error).split())
        if text.split("=")[0] in values:  # the message begins with a field: name its full path
            raise ConfigError(f"{prefix}{text}") from error
        raise ConfigError(f"{prefix[:-1]}: {text}" if prefix else text) from error


def reject_unknown(known: Mapping[str, Any], config: DictConfig, prefix: str = "") -> None:
    """Refuse keys that no field declares, as a YAML file may hold them."""
    for key in config:
        path = f"{prefix}{key!s}"
        if path not in known:
            siblings = [name for name in sorted(known) if name.rpartition(".")[0] == prefix[:-1]]
            near = nearest(path, sorted(known))
            raise ConfigError(f"{path} is not a field{near}; there are {', '.join(siblings)}")
        name = str(key)
        absent = OmegaConf.is_missing(config, name) or OmegaConf.is_interpolation(config, name)
        if not absent and isinstance(config[key], DictConfig):
            reject_unknown(known, config[key], f"{path}.")


def _value(config: DictConfig, name: str, path: str, hint: Any) -> Any:
    try:
        if OmegaConf.is_missing(config, name):
            raise ConfigError(f"{path} is missing, it must be {type_name(hint)}: give {path}=...")
        return _plain(config[name], path)
    except OmegaConfBaseException as error:
        part = OmegaConf.masked_copy(config, [name])
        typed = OmegaConf.to_container(part, resolve=False)[name]  # type: ignore[index, call-overload]
        raise ConfigError(f"{path}={typed} must be {type_name(hint)}") from error


def _plain(value: Any, path: str) -> Any:
    if isinstance(value, ListConfig | list):  # a list comes from ${by_scale:[...],[...],[...]}
        return tuple(_plain(item, f"{path}[{i}]") for i, item in enumerate(value))
    if isinstance(value, DictConfig):
        kind = OmegaConf.get_type(value)
        if dataclasses.is_dataclass(kind):
            return build(kind, value, f"{path}.")
        return OmegaConf.to_container(value, resolve=True)
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{path}={value} must be a finite number")
    if isinstance(value, int) and abs(value) >= LARGEST:
        raise ConfigError(f"{path}={str(value)[:12]}... must be smaller than 2^63")
    return value


def _like(default: Any, value: Any, path: str) -> Any:
    """A nested list with items of the type of its default's items, where none is declared."""
    if isinstance(default, tuple):
        if not isinstance(value, tuple):
            raise ConfigError(f"{path}={value!r} must be a list")
        return tuple(_like(default[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    kind = type(default)
    if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else kind):
        raise ConfigError(f"{path}={str(value)[:80]!r} must be {type_name(kind)}")
    return value


def canonical(value: Any) -> Any:
    """A spec as plain JSON values, the same for equal specs."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: canonical(getattr(value, name)) for name in names}
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, (tuple, list)):
        return [canonical(item) for item in value]
    if isinstance(value, dict):
        return {str(key): canonical(item) for key, item in value.items()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(f"value={value!r} of type {type(value).__name__} must be plain or a spec")


def outside_inputs(spec: Any, prefix: str = "") -> dict[str, str]:
    """Checksums of what a run reads from outside this checkout, by dotted field.

    A spec that names texts, weights or other files says them by its method ``outside_inputs()``.
    """
    found = {}
    if hasattr(spec, "outside_inputs"):
        found = {f"{prefix}{field}": mark for field, mark in spec.outside_inputs().items()}
    for field in dataclasses.fields(spec):
        value = getattr(spec, field.name)
        if dataclasses.is_dataclass(value):
            found |= outside_inputs(value, f"{prefix}{field.name}.")
    return found


def run_id(
    settings: RunSettings, spec: Any, inputs: Mapping[str, str], outside: Mapping[str, str]
) -> str:
    """Twelve hexadecimal digits that hash all that determines a run's numbers but its code.

    ``inputs`` are the identities of upstream runs, ``outside`` as in `outside_inputs`.
    """
    identity = {
        "experiment": settings.experiment,
        "spec": canonical(spec),
        "scale": settings.scale.name,
        "seed": settings.seed,
        "dtype": settings.dtype.name,
        "inputs": dict(inputs),
    }
    if outside:
        identity["outside"] = dict(outside)
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
