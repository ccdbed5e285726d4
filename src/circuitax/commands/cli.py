"""Commands: words and options declared once and read by argparse; one line for a mistake."""

import argparse
import gc
import importlib
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, NamedTuple

from circuitax.config.catalogue import ExperimentEntry, no_experiment
from circuitax.cores import n_cores
from circuitax.lab.runs import in_one_line
from circuitax.names import nearest

WIDTH = 100
YES_NO = ("no", "yes")
_WORDS = {int: "an integer", float: "a number"}


class UsageError(ValueError):
    """A mistake of the person who typed; the message is one line."""


class Option(NamedTuple):
    """An option, typed as ``name=value``, ``--name value`` or ``--name=value``.

    ``value`` is what help shows in the place of a value, ``allowed`` all values where there are
    few; of `YES_NO`, ``--name`` alone is yes.
    """

    name: str
    value: str
    help: str
    default: Any = ""
    allowed: Sequence[str] = ()
    kind: Callable[[str], Any] = str


class Command(NamedTuple):
    """A command: what it does, its words, perhaps ``NAME ...`` or ``[NAME]``, and its options.

    ``needed`` says whether nothing typed is too little, beside the words.
    """

    name: str
    about: str
    words: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    needed: bool = False

    def parser(self) -> argparse.ArgumentParser:
        """The parser of what is typed behind the command."""
        parser = _Parser(
            prog=f"python -m experiments.{self.name}",
            description=self.about.strip(),
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=WIDTH),
            allow_abbrev=False,
        )
        for word in self.words:
            many = {"nargs": "+"} if word.endswith(" ...") else {}
            free = {"nargs": "?", "default": ""} if word.startswith("[") else many
            parser.add_argument(word.removesuffix(" ...").strip("[]"), **free)  # type: ignore[arg-type]
        for option in self.options:
            values = "|".join(option.allowed)
            lone = {"nargs": "?", "const": "yes"} if tuple(option.allowed) == YES_NO else {}
            parser.add_argument(
                f"--{option.name}",
                metavar=option.value or values,
                help=option.help + (f" ({values})" if option.value and values else ""),
                default=option.default,
                type=_kind(option),
                **lone,  # type: ignore[arg-type]
            )
        return parser

    def read(self, typed: Sequence[str]) -> dict[str, Any]:
        """Words and options by name; ``-`` in a name is ``_``. A lone ``--`` ends the options."""
        known = sorted(option.name for option in self.options)
        cut = list(typed).index("--") if "--" in typed else len(typed)
        # ``name=value`` is ``--name=value``, as fields are given to experiments.run.
        given = [f"--{x}" if x.partition("=")[0] in known and "=" in x else x for x in typed[:cut]]
        found, extra = self.parser().parse_known_args([*given, *typed[cut:]])
        if extra:
            near = nearest(extra[0].partition("=")[0].lstrip("-"), known)
            options = f"options are {', '.join(known)}" if known else "there are none"
            raise UsageError(f"{extra[0]} is no option{near}; {options}")
        return vars(found)

    def entry(self, act: Callable[[dict[str, Any]], int]) -> Callable[[list[str] | None], int]:
        """Decorator of the function that runs the command and returns the exit status.

        Help is printed where it is asked for, or nothing is typed and something must be; mistakes
        and errors of the disk are one line, with exit status 2.
        """

        @wraps(act)
        def main(arguments: list[str] | None = None) -> int:
            typed = sys.argv[1:] if arguments is None else arguments
            needed = self.needed or any(not word.startswith("[") for word in self.words)
            if {"-h", "--help"} & set(typed) or (not typed and needed):
                print(self.parser().format_help(), end="")
                return 0 if typed else 2
            return guarded(lambda: act(self.read(typed)))

        return main


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        """Argparse's own text, as an error that `guarded` prints."""
        raise UsageError(re.sub(r"^argument (--)?(\S+?): ", "", message) + "; see --help")


def _kind(option: Option) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        if option.allowed and text not in (*option.allowed, option.default):
            raise argparse.ArgumentTypeError(
                f"{option.name}={text} must be one of {', '.join(option.allowed)}"
            )
        try:
            return option.kind(text)
        except ValueError:
            must = _WORDS.get(option.kind, "another")  # type: ignore[call-overload]
            raise argparse.ArgumentTypeError(f"{option.name}={text} must be {must}") from None

    read.__name__ = option.name
    return read


def guarded(act: Callable[[], int]) -> int:
    """Exit status of a command; a person's mistake or an error of the disk is one line and 2."""
    try:
        return act()
    except ValueError as error:
        line = str(error)
    except OSError as error:
        line = in_one_line(error)
        if line.startswith(type(error).__name__):  # not of the disk, but of the program
            raise
    print(f"error: {line}", file=sys.stderr)
    return 2


def wanted(text: str, entries: Mapping[str, ExperimentEntry]) -> list[str]:
    """The experiments of a comma-separated list; all of them for an empty one."""
    names = [name for name in text.split(",") if name]
    if text and not names:
        raise UsageError(f"{text!r} must name an experiment: there are {', '.join(entries)}")
    for name in names:
        if name not in entries:
            raise UsageError(f"{name} {no_experiment(name, entries)}")
    return names or sorted(entries)


def n_jobs(text: str) -> int:
    """Number of parallel processes, of ``jobs=N``, from 1 to the cores of this machine."""
    if not (text.isdecimal() and 1 <= int(text) <= n_cores()):
        raise UsageError(
            f"jobs={text} must be a whole number from 1 to {n_cores()}, the cores here"
        )
    return int(text)


def printable(text: str) -> str:
    """The text without control characters and characters that the terminal cannot show."""
    shown = "".join(c if c in "\n\t" or c.isprintable() else "\ufffd" for c in text)
    encoding = sys.stdout.encoding or "utf-8"
    return shown.encode(encoding, "replace").decode(encoding)


def enter(module: str) -> int:
    """Run ``main`` of a module, imported now; Ctrl-C before it listens is one line."""
    gc.disable()  # imports make no garbage, and a search for it takes a seventh of a start
    try:
        main = importlib.import_module(f"circuitax.commands.{module}").main
        gc.freeze()
        gc.enable()
        status: int = main()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 128 + signal.SIGINT
    return status
