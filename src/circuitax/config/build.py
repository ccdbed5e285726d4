"""Frozen specs from a composed configuration: lists become tuples, and every check is run."""

import dataclasses
import math
import re
import typing
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from circuitax.config.ranges import check
from circuitax.config.scale import BY_SCALE
from circuitax.config.schema import ConfigError, type_name
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.memory import require_memory, weights_of
from circuitax.memory import askable_bytes
from circuitax.names import nearest

# Integers from here on are no longer those of the arrays; with as many things as the second, JAX
# ends the process.
LARGEST = 2**63
LARGEST_COUNT = 2**31
_RESOLVER = re.compile(r"\$\{\s*([\w.]+)\s*:")
# What decides how many weights a transformer has.
_SIZES = ("d_model", "n_layers", "d_vocab", "d_mlp", "mlp_depth", "n_heads", "d_head", "n_ctx")
COUNTED = 64  # bytes that one of what a field counts takes, at least, before a run has ended


def build(spec: type, config: DictConfig, prefix: str = "") -> Any:
    """The spec described by a configuration; innermost specs are built, and checked, first.

    Args:
        spec: Frozen dataclass.
        config: Node with the spec's fields, and perhaps more; see ``reject_unknown``.
        prefix: Dotted path of ``config``, for messages.

    Raises:
        ConfigError: If a value is missing, has the wrong type, or is refused by the spec.
    """
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
        check(built)
        if isinstance(built, TransformerSpec):
            require_memory(built, 3 * weights_of(built), *_SIZES)  # and their moments
        return built
    except ValueError as error:
        text = _one_line(error)
        if text.split("=")[0] in values:  # the message begins with a field: name its full path
            raise ConfigError(f"{prefix}{text}") from error
        raise ConfigError(f"{prefix[:-1]}: {text}" if prefix else text) from error


def reject_unknown(known: set[str], config: DictConfig, prefix: str = "") -> None:
    """Refuse keys that no field declares, also those added with ``+`` or in a YAML file.

    Raises:
        ConfigError: Naming the key and the nearest field.
    """
    for key in config:
        path = f"{prefix}{key!s}"
        if path not in known:
            value = OmegaConf.select(config, str(key), throw_on_missing=False)
            raise ConfigError(
                f"{path}={value!r} is not a field{nearest(path, sorted(known))}; "
                f"allowed here: {', '.join(_siblings(known, prefix))}"
            )
        if isinstance(value := _given(config, str(key)), DictConfig):
            reject_unknown(known, value, f"{path}.")


def _given(config: DictConfig, name: str) -> Any:
    """The value of a key as it is given; None where it is missing or stands for another."""
    other = OmegaConf.is_missing(config, name) or OmegaConf.is_interpolation(config, name)
    return None if other else config[name]


def _value(config: DictConfig, name: str, path: str, hint: Any) -> Any:
    typed = _typed(config, name)
    try:
        if OmegaConf.is_missing(config, name):
            raise ConfigError(f"{path} is missing, it must be {type_name(hint)}: give {path}=...")
        _refuse_resolvers(typed, path, hint)
        value = config[name]
    except OmegaConfBaseException as error:
        raise ConfigError(f"{path}={typed} must be {type_name(hint)}") from error
    return _plain(value, path)


def _typed(config: DictConfig, name: str) -> Any:
    """The value of a key as it was typed, resolvers and references as text."""
    part = OmegaConf.masked_copy(config, [name])
    return OmegaConf.to_container(part, resolve=False)[name]  # type: ignore[index, call-overload]


def _refuse_resolvers(typed: Any, path: str, hint: Any) -> None:
    """Refuse resolvers such as ``${now:%S}`` in numbers, which must not vary; texts may use one."""
    if str in (hint, *typing.get_args(hint)):
        return
    for raw in typed if isinstance(typed, list) else [typed]:
        asked = _RESOLVER.findall(raw) if isinstance(raw, str) else []
        if other := next((name for name in asked if name != BY_SCALE), ""):
            raise ConfigError(f"{path}={raw} must be {type_name(hint)}, and not what {other} says")


def _plain(value: Any, path: str) -> Any:
    if isinstance(value, ListConfig | list):  # a list comes from ${by_scale:[...],[...],[...]}
        return tuple(_plain(item, f"{path}[{i}]") for i, item in enumerate(value))
    if isinstance(value, DictConfig):
        kind = OmegaConf.get_type(value)
        if dataclasses.is_dataclass(kind):
            return build(kind, value, f"{path}.")
        return OmegaConf.to_container(value, resolve=True)
    if isinstance(value, float) and not math.isfinite(value):
        # No record could say it, and no run with it could be published.
        raise ConfigError(f"{path}={value} must be a finite number")
    if isinstance(value, int) and abs(value) >= LARGEST:
        raise ConfigError(f"{path}={str(value)[:12]}... must be smaller than 2^63")
    if isinstance(value, int) and not path.endswith("seed"):
        limit = askable_bytes()
        if value >= min(LARGEST_COUNT, limit / COUNTED):
            raise ConfigError(
                f"{path}={value} must be smaller: {COUNTED} bytes for each would be "
                f"{value * COUNTED:.1e}, at most {limit:.1e} can be asked for here, and 2^31 of all"
            )
    return value


def _like(default: Any, value: Any, path: str) -> Any:
    """A list with items converted to the type of its default's items, where none is declared."""
    if isinstance(default, tuple):
        if not isinstance(value, tuple):
            raise ConfigError(f"{path}={value!r} must be a list")
        return tuple(_like(default[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    kind = type(default)
    if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else kind):
        raise ConfigError(f"{path}={str(value)[:80]!r} must be {type_name(kind)}")
    return value


def _siblings(known: set[str], prefix: str) -> list[str]:
    return sorted(
        path.removeprefix(prefix)
        for path in known
        if path.startswith(prefix) and "." not in path.removeprefix(prefix)
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
