"""``name=value`` options of the entries that have no experiment's configuration."""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import ParamSpec

from circuitax.config.catalogue import Entry, no_experiment
from circuitax.config.schema import ConfigError
from circuitax.lab.places import about_the_place
from circuitax.names import nearest

Arguments = ParamSpec("Arguments")


def read_options(arguments: Sequence[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Options by name, with defaults for missing ones.

    Raises:
        ConfigError: If one is not ``name=value`` or has an unknown name.
    """
    options = dict(defaults)
    for item in arguments:
        name, equals, value = item.partition("=")
        if not equals or name not in options:
            near = nearest(name, list(options))
            raise ConfigError(f"{item} is no option{near}; options are {', '.join(options)}")
        options[name] = value
    return options


def wanted(text: str, entries: Mapping[str, Entry]) -> list[str]:
    """The experiments of a comma-separated list; all of them for an empty one.

    Raises:
        ConfigError: If one does not exist.
    """
    names = [name for name in text.split(",") if name]
    if text and not names:
        raise ConfigError(f"{text!r} must name an experiment: there are {', '.join(entries)}")
    for name in names:
        if name not in entries:
            raise ConfigError(f"{name} {no_experiment(name, entries)}")
    return names or sorted(entries)


def one_of(name: str, value: str, allowed: Sequence[str]) -> str:
    """The value, if allowed.

    Raises:
        ConfigError: If it is not.
    """
    if value not in allowed:
        raise ConfigError(f"{name}={value} must be one of {', '.join(allowed)}")
    return value


def refuse(error: Exception) -> int:
    """Print an error in one line; returns the exit status of a command that did nothing."""
    print(f"error: {error}", file=sys.stderr)
    return 2


def disk_in_one_line(main: Callable[Arguments, int]) -> Callable[Arguments, int]:
    """Decorator of a command that reports disk errors in one line, with exit status 2."""

    @wraps(main)
    def command(*arguments: Arguments.args, **options: Arguments.kwargs) -> int:
        try:
            return main(*arguments, **options)
        except OSError as error:
            if reason := about_the_place(error):
                return refuse(OSError(reason))
            raise

    return command
