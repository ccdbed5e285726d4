"""The plan of a command line: every job composed by Hydra, and checked before any starts."""

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_origin

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, Quote, QuotedString
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from circuitax.config.catalogue import (
    ExperimentEntry,
    checkout,
    extra_conf,
    no_experiment,
    upstream_order,
)
from circuitax.config.spec import (
    INPUT,
    ConfigError,
    RunSettings,
    build,
    outside_inputs,
    register,
    register_resolvers,
    reject_unknown,
    run_id,
    type_name,
)
from circuitax.lab.runs import newest_folder, provenance
from circuitax.names import nearest

MOST_JOBS = 10_000  # of a sweep: each is composed before the first one starts
_AGAIN = "--again"
_MULTIRUN = ("--multirun", "-m")
# Hydra answers these itself; the first four take a value.
QUESTIONS = ("--cfg", "-c", "--info", "-i", "--resolve", "--hydra-help", "--version")


class CommandLine(NamedTuple):
    """What was typed: overrides, questions to Hydra, and whether a sweep."""

    overrides: tuple[str, ...]
    questions: tuple[str, ...]
    multirun: bool


@dataclass(frozen=True)
class PlannedRun:
    """One job: its experiment, settings and spec, and the runs that it reads.

    ``overrides`` is what was typed for it, ``config`` the whole configuration as YAML, ``outside``
    the checksum of what it reads from outside, by field.
    """

    entry: ExperimentEntry
    settings: RunSettings
    spec: Any
    overrides: tuple[str, ...]
    config: str
    inputs: "tuple[PlannedRun | GivenRun, ...]" = ()
    outside: tuple[tuple[str, str], ...] = ()

    @property
    def id(self) -> str:
        """Identity of the run; see `run_id`."""
        read = {planned.entry.name: planned.id for planned in self.inputs}
        return run_id(self.settings, self.spec, read, dict(self.outside))

    @property
    def planned_inputs(self) -> "tuple[PlannedRun, ...]":
        """The runs that it reads without those that a person named."""
        return tuple(item for item in self.inputs if isinstance(item, PlannedRun))


@dataclass(frozen=True)
class GivenRun:
    """A finished run to read, which ``input.NAME=RUN`` names; nothing of it is planned."""

    entry: ExperimentEntry
    folder: Path
    id: str


def split(arguments: Sequence[str]) -> CommandLine:
    """Separate flags from overrides."""
    overrides, questions, multirun = [], [], False
    items = iter(arguments)
    for item in items:
        if item in QUESTIONS[:4]:
            questions.extend([item, *itertools.islice(items, 1)])
        elif item in QUESTIONS:
            questions.append(item)
        elif item in _MULTIRUN:
            multirun = True
        elif item == _AGAIN:
            overrides.append("again=true")
        elif item.startswith("-"):
            name, _, value = item.partition("=")
            near = nearest(name, [*QUESTIONS, *_MULTIRUN, _AGAIN])
            field = f"{name.lstrip('-')}={value or '...'}"
            raise ConfigError(f"{name} is no option{near}; a field has no dashes, as {field}")
        else:
            overrides.append(item)
    return CommandLine(tuple(overrides), tuple(questions), multirun)


def plan(
    overrides: Sequence[str],
    entries: dict[str, ExperimentEntry],
    *,
    multirun: bool = False,
    watched: Callable[[list[list[str]]], Iterable[list[str]]] = iter,
) -> tuple[list[str], list[PlannedRun]]:
    """The overrides to hand to Hydra, and every run that they unfold to, all of them checked.

    ``watched`` goes through the jobs, and may show how far it is. Raises `ConfigError`, one line
    about the first thing that is wrong.
    """
    parsed = _parse(overrides)
    keys = [override.get_key_element() for override in parsed]
    if twice := [key for key in keys if keys.count(key) > 1]:
        raise ConfigError(f"{twice[0]} is given twice; write one {twice[0]}=..., a sweep as a,b")
    names = _experiments(parsed)
    if not names:
        raise ConfigError(
            f"experiment is missing: give experiment=..., one of {', '.join(entries)}"
        )
    known: dict[str, Any] = {}
    for name in names:
        known |= _register(name, entries)
    choices = [_checked(override, known, multirun) for override in parsed]
    n_jobs = math.prod(len(texts) for texts in choices)
    if n_jobs > MOST_JOBS:
        raise ConfigError(f"the sweep has {n_jobs:,} jobs, it must have at most {MOST_JOBS:,}")
    folders = [] if "hydra.searchpath" in keys else _searchpath(entries)
    jobs = [[*job, *folders] for job in map(list, itertools.product(*choices))]
    with own_hydra():
        runs = [_composed(job, entries) for job in watched(jobs)]
    # Hydra's sweeper unfolds them once more, in the same order.
    typed = [f"{key}={','.join(_values(texts))}" for key, texts in zip(keys, choices, strict=True)]
    return [*typed, *folders], runs


def from_config(
    config: DictConfig, overrides: Sequence[str], entries: dict[str, ExperimentEntry]
) -> PlannedRun:
    """The planned run of a configuration that Hydra composed."""
    name = str(config.experiment)
    reject_unknown(_register(name, entries), config)
    entry = entries[name]
    settings = build(RunSettings, config)
    spec = build(entry.load().Spec, config)
    upstream_order(name, entries)
    inputs = tuple(
        _given(entries[upstream], str(config[INPUT][upstream]))
        if config[INPUT][upstream]
        else _upstream(upstream, settings, entries, spec)
        for upstream in entry.requires
    )
    # Asking for a run again says nothing about the run.
    asked = OmegaConf.masked_copy(config, [str(key) for key in config if key != "again"])
    typed = tuple(text for text in overrides if text.partition("=")[0] != "again")
    outside = tuple(outside_inputs(spec).items())
    text = OmegaConf.to_yaml(asked, resolve=True)
    return PlannedRun(entry, settings, spec, typed, text, inputs, outside)


@contextmanager
def own_hydra() -> Iterator[None]:
    """Context with a Hydra of its own, also inside a job of another one."""
    register_resolvers()
    outer, GlobalHydra.instance().hydra = GlobalHydra.instance().hydra, None
    try:
        conf = str(checkout() / "conf")
        with hydra.initialize_config_dir(conf, version_base="1.3", job_name="run"):
            yield
    finally:
        GlobalHydra.instance().hydra = outer


def launcher_settings(name: str, experiment: str, entries: dict[str, ExperimentEntry]) -> Any:
    """What ``conf/hydra/launcher/NAME.yaml`` says, for jobs of an experiment; folders are open."""
    _register(experiment, entries)
    job = [f"experiment={experiment}", f"hydra/launcher={name}", *_searchpath(entries)]
    with own_hydra():
        config = hydra.compose("config", overrides=job, return_hydra_config=True)
    return OmegaConf.to_container(config.hydra.launcher, resolve=False)


def quoted(key: str, text: str) -> str:
    """The override ``key='text'``, for text with characters of Hydra's grammar."""
    return f"{key}={QuotedString(text, Quote.single).with_quotes()}"


def of_hydra(text: str) -> bool:
    """Whether an override sets a field of Hydra itself, not of an experiment."""
    return re.split(r"[./=]", text.lstrip("+~"))[0] == "hydra"


def _parse(overrides: Iterable[str]) -> list[Override]:
    parsed = []
    for text in overrides:
        if "=" not in text and not text.startswith("~"):
            raise ConfigError(f"{text!r} has no value: write FIELD=VALUE, and experiment=NAME")
        try:
            parsed.append(OverridesParser.create().parse_override(text))
        except HydraException as error:
            why = str(error).strip().split("\n")[0]
            raise ConfigError(f"{text!r} cannot be read: {why}") from error
    return parsed


def _experiments(parsed: Iterable[Override]) -> list[str]:
    named = [override for override in parsed if override.get_key_element() == "experiment"]
    return [value for override in named for value in _items(override)]


def _register(name: str, entries: dict[str, ExperimentEntry]) -> dict[str, Any]:
    if name not in entries:
        raise ConfigError(f"experiment={name} {no_experiment(name, entries)}")
    return register(name, entries[name].load().Spec, entries[name].requires)


def _checked(override: Override, known: Mapping[str, Any], multirun: bool) -> list[str]:
    """An override as one text for each of its values, once its key and its sweep are allowed."""
    key, typed = override.get_key_element(), override.input_line or ""
    if of_hydra(key):
        return [typed]
    plain = key.lstrip("+~")
    if plain != "experiment" and plain not in known:
        near = nearest(plain, sorted(known))
        raise ConfigError(f"{typed} names no field{near}; fields are {', '.join(sorted(known))}")
    if plain != key:
        raise ConfigError(f"{typed}: fields are set, not added or deleted; write {plain}=...")
    items = _items(override)
    if override.is_sweep_override() and not multirun:
        raise ConfigError(f"{typed} is a sweep: add -m, or write a list as {key}=[...]")
    if not items:
        raise ConfigError(f"{typed} sweeps over nothing: write {key}=a,b,...")
    if get_origin(known.get(plain)) is tuple:
        items = [item if item[:1] == "[" or item[:2] == "${" else f"[{item}]" for item in items]
    return [f"{key}={item}" for item in items]


def _items(override: Override) -> list[str]:
    if not override.is_sweep_override():
        return [override.get_value_element_as_str()]
    if not override.is_discrete_sweep():
        raise ConfigError(f"{override.input_line} must sweep over values or a range")
    try:
        return list(override.sweep_string_iterator())
    except AssertionError:  # glob(...), which names of groups may use
        raise ConfigError(f"{override.input_line} must sweep over values or a range") from None


def _values(texts: Iterable[str]) -> list[str]:
    return [text.partition("=")[2] for text in texts]


def _composed(job: list[str], entries: dict[str, ExperimentEntry]) -> PlannedRun:
    name = next(text for text in job if text.startswith("experiment=")).partition("=")[2]
    known = _register(name, entries)
    ours = [text for text in job if not of_hydra(text)]
    for text in ours:  # a sweep over experiments has fields of one that another has not
        _checked(_parse([text])[0], known, multirun=False)
    try:
        config = hydra.compose("config", overrides=job)
    except (HydraException, OmegaConfBaseException, AssertionError) as error:
        raise ConfigError(_explained(error, job, known)) from error
    return from_config(config, ours, entries)


def _upstream(
    name: str, settings: RunSettings, entries: dict[str, ExperimentEntry], reader: Any
) -> PlannedRun:
    """The run that a reader reads: the defaults, and what its spec's method ``upstream`` asks."""
    asked = reader.upstream(name) if hasattr(reader, "upstream") else {}
    job = [
        f"experiment={name}",
        f"scale={settings.scale.name}",
        f"seed={settings.seed}",
        f"dtype={settings.dtype.name}",
        *(quoted(key, x) if isinstance(x, str) else f"{key}={x}" for key, x in asked.items()),
    ]
    with own_hydra():
        return _composed([*job, *_searchpath(entries)], entries)


def _given(entry: ExperimentEntry, text: str) -> GivenRun:
    """The run that ``input.NAME`` names: a folder, ``NAME/RUN``, RUN, or NAME for the newest."""
    try:
        folder = newest_folder(text)
    except ValueError as error:
        raise ConfigError(f"{INPUT}.{entry.name}={text}: {error}") from error
    facts = provenance(folder)
    if (name := facts["experiment"]) != entry.name:
        raise ConfigError(
            f"{INPUT}.{entry.name}={text} is a run of {name}, must be of {entry.name}"
        )
    return GivenRun(entry, folder, facts["run"])


def _searchpath(entries: dict[str, ExperimentEntry]) -> list[str]:
    folders = extra_conf(entries)
    if missing := [folder for folder in folders if not folder.is_dir()]:
        raise ConfigError(f"config folder {missing[0].name!r} does not exist")
    places = (QuotedString(f"file://{folder}", Quote.single).with_quotes() for folder in folders)
    return [f"hydra.searchpath=[{','.join(places)}]"] if folders else []


def _explained(error: Exception, job: list[str], known: dict[str, Any]) -> str:
    """Hydra's text names the override, and our list of types says what it may be."""
    text = str(error)
    for override in job:
        key, _, value = override.partition("=")
        if key in known and (override in text or isinstance(error, AssertionError)):
            return f"{key}={value} must be {type_name(known[key])}"
    named = re.search(r"full_key: (\S+)", f"{error}\n{error.__cause__}")
    where = named.group(1) if named else ""
    short = " ".join(text.split("Config search path")[0].split())
    if where in known:
        return f"{where} in the YAML file must be {type_name(known[where])}: {short}"
    if where:
        return f"{where} in the YAML file names no field{nearest(where, sorted(known))}"
    return short
