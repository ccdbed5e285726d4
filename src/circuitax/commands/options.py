"""Options of the entries that have no experiment's configuration, each declared once."""

import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, NamedTuple

from circuitax.config.catalogue import ExperimentEntry, no_experiment
from circuitax.config.schema import ConfigError
from circuitax.cores import n_cores
from circuitax.lab.places import about_the_place
from circuitax.names import nearest

WIDTH = 100
YES_NO = ("no", "yes")
_WORDS = {int: "an integer", float: "a number"}


class Option(NamedTuple):
    """An option of a command.

    Attributes:
        name: Typed as ``name=value``, ``--name value`` or ``--name=value``.
        value: What help shows in the place of a value; the allowed ones where it is empty.
        help: What it does.
        default: Its value where it is not typed.
        allowed: All values, where there are few; of `YES_NO`, ``--name`` alone is yes.
        kind: Type of the value: str, int or float.
    """

    name: str
    value: str
    help: str
    default: Any = ""
    allowed: Sequence[str] = ()
    kind: Callable[[str], Any] = str

    @property
    def usage(self) -> str:
        """``name=value``, as help shows it; of all values the usual one comes first."""
        first = sorted(self.allowed, key=lambda value: value != self.default)
        return f"{self.name}={self.value or '|'.join(first)}"

    @property
    def line(self) -> str:
        """Help of the option, with its values where `usage` does not show them."""
        values = f" ({', '.join(self.allowed)})" if self.value and self.allowed else ""
        return self.help + values


class Command(NamedTuple):
    """A command: its purpose, its words, and its options.

    Attributes:
        name: Of ``python -m experiments.<name>``.
        about: What it does, as help prints it.
        words: Names of the words that come first; the last may be ``NAME ...``, one or more.
        options: All of them.
        needed: Whether nothing typed is too little, beside the words.
    """

    name: str
    about: str
    words: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    needed: bool = False

    def help(self) -> str:
        """Usage, purpose and options of the command."""
        usage = (item.replace(" ", "\0") for item in (*self.words, *self._brackets()))
        lines = [_wrapped(f"usage: python -m experiments.{self.name} ", " ".join(usage))]
        lines += ["", *self.about.strip().split("\n")]
        lines += [""] if self.options else []
        lines += [_wrapped(f"  {one.usage:<18} ", one.line, at=21) for one in self.options]
        return "\n".join(lines) + "\n"

    def _brackets(self) -> Iterable[str]:
        return (f"[{option.usage}]" for option in self.options)

    def read(self, typed: Sequence[str]) -> dict[str, Any]:
        """Words and options by name; ``-`` in a name is ``_``. A lone ``--`` ends the options.

        Raises:
            ConfigError: If a word is missing or one too many, or an option is unknown or its value
                not allowed.
        """
        known = {option.name: option for option in self.options}
        found: dict[str, Any] = {option.name: option.default for option in self.options}
        many = bool(self.words) and self.words[-1].endswith(" ...")
        words: list[str] = []
        rest, plain = list(typed), False
        while rest:
            item = rest.pop(0)
            name, equals, value = item.partition("=")
            if item == "--" and not plain:
                plain = True
            elif item.startswith("--") and not plain and " " not in name:
                option = self._option(name[2:], item, "--")
                if not equals and tuple(option.allowed) == YES_NO:
                    value = "yes"
                elif not equals and not rest:
                    raise ConfigError(f"{name}: expected one argument; see --help")
                found[option.name] = _value(option, value if equals or value else rest.pop(0))
            elif len(words) < len(self.words) or (many and name not in known):
                words.append(item)
            elif self.words and (plain or not equals):
                takes = f"give {' and '.join(self.words)}, each quoted as one word"
                raise ConfigError(f"{item!r} is one too many: {takes}")
            else:
                option = self._option(name if equals else "", item, "")
                found[option.name] = _value(option, value)
        for word in self.words[len(words) :]:
            raise ConfigError(f"{word} is missing: give {' '.join(self.words)}; see --help")
        given = {name.replace("-", "_"): value for name, value in found.items()}
        for i, word in enumerate(self.words):
            given[word.removesuffix(" ...")] = words[i:] if word.endswith(" ...") else words[i]
        return given

    def _option(self, name: str, item: str, dashes: str) -> Option:
        for option in self.options:
            if option.name == name:
                return option
        known = [dashes + option.name for option in self.options]
        near = nearest(item.partition("=")[0], known)
        raise ConfigError(f"{item} is no option{near}; options are {', '.join(known) or 'none'}")

    def entry(self, act: Callable[[dict[str, Any]], int]) -> Callable[[list[str] | None], int]:
        """Decorator of the function that runs the command and returns the exit status.

        The command prints its help where it is asked for, or nothing is typed and something must
        be; mistakes and errors of the disk are one line, with exit status 2.
        """

        @wraps(act)
        def main(arguments: list[str] | None = None) -> int:
            typed = sys.argv[1:] if arguments is None else arguments
            if {"-h", "--help"} & set(typed) or (not typed and (self.words or self.needed)):
                print(self.help(), end="")
                return 0 if typed else 2
            try:
                options = self.read(typed)
            except ConfigError as error:
                return refuse(error)
            return disk_in_one_line(act)(options)

        return main


def _value(option: Option, text: str) -> Any:
    if option.allowed and text not in (*option.allowed, option.default):
        raise ConfigError(f"{option.name}={text} must be one of {', '.join(option.allowed)}")
    try:
        return option.kind(text)
    except ValueError:
        must = _WORDS.get(option.kind, "another")  # type: ignore[call-overload]
        raise ConfigError(f"{option.name}={text} must be {must}") from None


def _wrapped(start: str, text: str, at: int | None = None) -> str:
    """A text behind its beginning, its lines broken between words and indented alike."""
    indent = " " * (len(start) if at is None else at)
    broken = textwrap.fill(
        text, WIDTH, initial_indent=start, subsequent_indent=indent, break_on_hyphens=False
    )
    return broken.replace("\0", " ") or start.rstrip()


def wanted(text: str, entries: Mapping[str, ExperimentEntry]) -> list[str]:
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


def n_jobs(text: str) -> int:
    """Number of parallel processes, of ``jobs=N``.

    Raises:
        ConfigError: If it is no whole number from 1 to the cores of this machine.
    """
    cores = n_cores()
    if not (text.isdecimal() and 1 <= int(text) <= cores):
        raise ConfigError(f"jobs={text} must be a whole number from 1 to {cores}, the cores here")
    return int(text)


def refuse(error: Exception) -> int:
    """Print an error in one line; returns the exit status of a command that did nothing."""
    print(f"error: {error}", file=sys.stderr)
    return 2


def disk_in_one_line(act: Callable[..., int]) -> Callable[..., int]:
    """Decorator of a command that reports disk errors in one line, with exit status 2."""

    @wraps(act)
    def command(*arguments: Any) -> int:
        try:
            return act(*arguments)
        except OSError as error:
            if reason := about_the_place(error):
                return refuse(OSError(reason))
            raise

    return command
