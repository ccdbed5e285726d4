"""An experiment's Spec as Hydra's schema: the frozen dataclass declares every key and its type."""

import dataclasses
import typing
from collections.abc import Iterator
from functools import cache
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import Container, DictConfig, ListConfig, OmegaConf

from circuitax.config.scale import RunSettings, register_resolvers


class ConfigError(ValueError):
    """An invalid configuration; the message is one line."""


def register(name: str, spec: type) -> None:
    """Register ``experiment=<name>`` with Hydra, with ``spec`` as its schema.

    Args:
        name: Name of the experiment.
        spec: Frozen dataclass of its fields.

    Raises:
        ValueError: If ``spec`` is not a dataclass, or has a field that every run has already.
    """
    if not dataclasses.is_dataclass(spec):
        raise ValueError(f"spec={spec!r} of experiment {name!r} must be a dataclass")
    register_resolvers()
    ConfigStore.instance().store(
        group="spec", name=name, node=_node(name, spec), package="_global_", provider="circuitax"
    )


def forget() -> None:
    """Take every experiment out of Hydra's store, which Hydra copies whole to compose one."""
    ConfigStore.instance().repo.pop("spec", None)


@cache  # Hydra's store copies a node before it composes anything into it
def _node(name: str, spec: type) -> DictConfig:
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
    # Values from YAML and the command line keep their types; Hydra adds keys of its own.
    OmegaConf.set_struct(node, False)
    node.experiment = name
    return node


def writable(spec: type) -> DictConfig:
    """The typed, writable node of a frozen dataclass, for composing values into it."""
    node = OmegaConf.structured(spec)
    _thaw(node)
    return node


def _thaw(node: Container) -> None:
    """Clear the flag that makes a frozen dataclass's node read-only: composing writes into it."""
    OmegaConf.set_readonly(node, None)
    kind = OmegaConf.get_type(node)
    hints = typing.get_type_hints(kind) if dataclasses.is_dataclass(kind) else {}
    for key in range(len(node)) if isinstance(node, ListConfig) else list(node):
        if OmegaConf.is_missing(node, key):
            nested = _nested(hints.get(str(key)))
            if nested is None:
                continue
            # A nested spec without a default: its own fields say what is missing.
            node[key] = OmegaConf.structured(nested)
        if not OmegaConf.is_interpolation(node, key) and isinstance(child := node[key], Container):
            _thaw(child)


def fields(spec: type, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every key of a spec by its dotted path, with its type; nested specs themselves included."""
    hints = typing.get_type_hints(spec)
    for field in dataclasses.fields(spec):
        path = f"{prefix}{field.name}"
        yield path, hints[field.name]
        nested = _nested(hints[field.name])
        if nested is not None:
            yield from fields(nested, f"{path}.")


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


def _nested(hint: Any) -> type | None:
    for candidate in (hint, *typing.get_args(hint)):
        is_list = typing.get_origin(hint) is tuple
        if isinstance(candidate, type) and dataclasses.is_dataclass(candidate) and not is_list:
            return candidate
    return None
