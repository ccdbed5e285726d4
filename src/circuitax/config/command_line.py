"""Parsing of the command line ahead of Hydra: overrides checked, sweeps unfolded into jobs."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, get_origin

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import (
    ChoiceSweep,
    Glob,
    Override,
    Quote,
    QuotedString,
    RangeSweep,
)
from hydra.errors import HydraException

from circuitax.config.schema import ConfigError, type_name
from circuitax.names import nearest


class CommandLine(NamedTuple):
    """The typed command line: overrides, flags with values, sweep or not, and config folder."""

    overrides: tuple[str, ...]
    flags: tuple[str, ...]
    multirun: bool
    config_dir: str | None


# Every job of a sweep is composed and checked before the first one starts, which takes a while.
MOST_JOBS = 10_000
# Beyond this many characters, what was typed is cut in messages.
_SHOWN = 200
# Hydra's flags that take a value, and the one whose value we take for ourselves.
_CONFIG_DIR = {"--config-dir", "-cd"}
_AGAIN = "--again"
_WITH_VALUE = {"--package", "-p", "--cfg", "-c", "--info", "-i"}
_WITHOUT_VALUE = {
    "--multirun",
    "-m",
    "--run",
    "-r",
    "--resolve",
    "--help",
    "-h",
    "--hydra-help",
    "--version",
    "--shell-completion",
    "-sc",
    "--experimental-rerun",
}
# The configuration has one name and place: experiments add to it, and nothing replaces it.
_REFUSED = {"--config-name", "-cn", "--config-path", "-cp"}


def split(arguments: Sequence[str]) -> CommandLine:
    """Separate Hydra's flags from overrides.

    Raises:
        ConfigError: If ``--config-dir`` has no value, a flag is none of Hydra's, or another
            configuration is asked for.
    """
    overrides, flags = [], []
    config_dir = None
    items = iter(arguments)
    for item in items:
        name, equals, value = item.partition("=")
        if name in _CONFIG_DIR:
            config_dir = value if equals else next(items, None)
            if not config_dir:
                raise ConfigError(f"{name} needs a folder: {name} FOLDER")
        elif name in _REFUSED:
            raise ConfigError(f"{name} is not offered: name an experiment, as in experiment=NAME")
        elif item in _WITH_VALUE:
            flags.extend([item, *itertools.islice(items, 1)])
        elif item == _AGAIN:
            overrides.append("again=true")
        elif item.startswith("-"):
            known = sorted(_WITH_VALUE | _WITHOUT_VALUE | {_AGAIN, *_CONFIG_DIR})
            if name not in known:
                field = name.lstrip("-")
                raise ConfigError(
                    f"{name} is no option{nearest(name, known)}; a field is given without dashes, "
                    f"as {field}={value or '...'}"
                )
            flags.append(item)
        else:
            overrides.append(item)
    multirun = bool({"-m", "--multirun"} & set(flags)) or "hydra.mode=MULTIRUN" in overrides
    return CommandLine(tuple(overrides), tuple(flags), multirun, config_dir)


def parse(overrides: Iterable[str]) -> list[Override]:
    """Parse each override with Hydra's grammar.

    Raises:
        ConfigError: If one cannot be read.
    """
    parsed = []
    for text in overrides:
        if "=" not in text and not text.startswith("~"):
            raise ConfigError(
                f"{_cut(text)!r} has no value: write FIELD=VALUE, and an experiment as "
                "experiment=NAME"
            )
        try:
            parsed.append(OverridesParser.create().parse_override(text))
        except HydraException as error:
            raise ConfigError(f"{_cut(text)!r} cannot be read: {_first_line(error)}") from error
    return parsed


def of_hydra(override: Override) -> bool:
    """Whether an override sets a field of Hydra itself, not of an experiment."""
    return override.get_key_element().split(".")[0].split("/")[0] == "hydra"


def quoted(key: str, text: str) -> str:
    """The override ``key='text'``, for text with characters of Hydra's grammar."""
    return f"{key}={_quotes(text)}"


def quoted_list(key: str, texts: Iterable[str]) -> str:
    """The override ``key=['text',...]``, for texts with characters of Hydra's grammar."""
    return f"{key}=[{','.join(map(_quotes, texts))}]"


def _quotes(text: str) -> str:
    return QuotedString(text, Quote.single).with_quotes()


def matching(parsed: Iterable[Override], key: str, names: Iterable[str]) -> list[Override]:
    """The overrides with ``key=glob(...)`` replaced by the matching names.

    Raises:
        ConfigError: If it matches none.
    """
    replaced = []
    for override in parsed:
        value = override.value()
        if override.get_key_element() == key and isinstance(value, Glob):
            found = value.filter(sorted(names))
            if not found:
                raise ConfigError(f"{_typed(override)} matches none of {', '.join(names)}")
            replaced.extend(parse([f"{key}={','.join(found)}"]))
        else:
            replaced.append(override)
    return replaced


def count_jobs(parsed: Iterable[Override]) -> int:
    """Number of jobs of these overrides, computed without unfolding them.

    Raises:
        ConfigError: If there are more than ``MOST_JOBS``, or a key is given twice.
    """
    counts: dict[str, int | float] = {}
    for override in parsed:
        key = override.get_key_element()
        if key in counts:
            raise ConfigError(f"{key} is given twice; write one {key}=..., a sweep as {key}=a,b")
        counts[key] = _count(override)
    total = math.prod(counts.values())
    if not total <= MOST_JOBS:
        largest = max(counts, key=lambda key: counts[key])
        number = f"{total:,.0f}" if math.isfinite(total) else "infinitely many"
        raise ConfigError(
            f"the sweep has {number} jobs, it must have at most {MOST_JOBS:,}: "
            f"{largest} alone has {counts[largest]:,.0f} values"
        )
    return int(total)


def values_of(parsed: Iterable[Override], key: str) -> list[str]:
    """All values of a key over a sweep, as text; empty if the key is not given."""
    found: list[str] = []
    for override in parsed:
        if override.get_key_element() == key:
            found = _items(override)
    return found


def check(parsed: Iterable[Override], known: Mapping[str, Any], multirun: bool) -> list[str]:
    """The overrides with each key known, scalars for list fields put into lists.

    Args:
        parsed: Overrides of one experiment.
        known: Type of every field by its dotted path.
        multirun: Whether a sweep was asked for.

    Returns:
        Overrides as text.

    Raises:
        ConfigError: If a key is no field, is added or deleted, or sweeps without ``-m`` or over
            nothing.
    """
    checked = []
    for override in parsed:
        key = override.get_key_element()
        text = override.input_line or ""
        if of_hydra(override) or key == "experiment":
            checked.append(text)
            continue
        plain = key.lstrip("+~")
        if plain not in known:
            message = (
                f"{_typed(override)} names no field{nearest(plain, sorted(known))}; fields are "
            )
            raise ConfigError(message + ", ".join(sorted(known)))
        if plain != key:
            raise ConfigError(
                f"{_typed(override)}: fields are set, not added or deleted; write {plain}=..."
            )
        if override.is_sweep_override():
            items = _items(override)
            if not multirun:
                raise ConfigError(
                    f"{_typed(override)} is a sweep: add -m, or write a list as {key}=[...]"
                )
            if not items:
                raise ConfigError(
                    f"{_typed(override)} sweeps over nothing, it must be "
                    f"{type_name(known[plain])}: write {key}=a,b,..."
                )
        if get_origin(known[plain]) is tuple:
            text = f"{key}={','.join(map(_listed, _items(override)))}"
        checked.append(text)
    return checked


def jobs(checked: Iterable[str]) -> list[list[str]]:
    """Every job of a sweep as its list of overrides, in the order of Hydra's basic sweeper.

    Raises:
        ConfigError: If one key sweeps over nothing.
    """
    choices: dict[str, list[str]] = {}
    for override in parse(checked):
        key = override.get_key_element()
        choices[key] = [f"{key}={value}" for value in _items(override)]
        if not choices[key]:
            raise ConfigError(f"{_typed(override)} sweeps over nothing: write {key}=a,b,...")
    return [list(job) for job in itertools.product(*choices.values())]


def _count(override: Override) -> int | float:
    value = override.value()
    if isinstance(value, ChoiceSweep):
        return len(value.list)
    if not isinstance(value, RangeSweep):
        return 1
    start, stop, step = (float(x) for x in (value.start or 0, value.stop or 0, value.step or 0))
    if step == 0:
        raise ConfigError(f"{_typed(override)} must have a step other than 0")
    count = (stop - start) / step
    return max(0, math.ceil(count)) if math.isfinite(count) else math.inf


def _typed(override: Override) -> str:
    return _cut(override.input_line or "")


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _items(override: Override) -> list[str]:
    if not override.is_sweep_override():
        return [override.get_value_element_as_str()]
    if not override.is_discrete_sweep() or isinstance(override.value(), Glob):
        raise ConfigError(
            f"{_typed(override)} must sweep over values or a range: "
            f"{override.get_key_element()}=a,b,... (glob is for experiment= only)"
        )
    return list(override.sweep_string_iterator())


def _listed(item: str) -> str:
    return item if item.startswith("[") or item.startswith("${") else f"[{item}]"


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
