"""A planned run: one job of a sweep, composed and checked, with its upstream runs."""

import copy
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from circuitax.config.build import build, reject_unknown
from circuitax.config.catalogue import (
    ExperimentEntry,
    checkout,
    extra_conf,
    no_experiment,
    upstream_order,
)
from circuitax.config.command_line import (
    check,
    count_jobs,
    jobs,
    matching,
    of_hydra,
    parse,
    quoted,
    quoted_list,
    values_of,
)
from circuitax.config.identity import outside_inputs, run_id
from circuitax.config.scale import RunSettings, register_resolvers
from circuitax.config.schema import ConfigError, fields, register, type_name
from circuitax.names import nearest

# Fields that are no part of a run.
_ASKED = ("again", "reuse")


@dataclass(frozen=True)
class PlannedRun:
    """A planned run: spec, scale, dtype and inputs.

    Attributes:
        entry: The experiment.
        settings: Scale, seed and floating-point type.
        spec: The experiment's own fields, checked.
        overrides: What was typed for this run.
        config: The whole configuration as YAML, resolved.
        inputs: Upstream runs in the order of the experiment's ``requires``.
        outside: Checksums of what it reads from outside, by field.
        composed: The configuration with Hydra's own part, for the one job of a command line.
    """

    entry: ExperimentEntry
    settings: RunSettings
    spec: Any
    overrides: tuple[str, ...]
    config: str
    inputs: "tuple[PlannedRun, ...]" = ()
    outside: tuple[tuple[str, str], ...] = ()
    composed: DictConfig | None = field(default=None, compare=False, repr=False)

    @property
    def id(self) -> str:
        """Identity of the run; see ``run_id``."""
        return run_id(
            self.entry.name,
            self.spec,
            scale=self.settings.scale.name,
            seed=self.settings.seed,
            dtype=self.settings.dtype.name,
            inputs={planned.entry.name: planned.id for planned in self.inputs},
            outside=dict(self.outside),
        )


def plan(
    overrides: Sequence[str],
    entries: dict[str, ExperimentEntry],
    *,
    multirun: bool = False,
    config_dir: str | None = None,
    watched: Callable[[list[list[str]]], Iterable[list[str]]] = iter,
) -> tuple[list[str], list[PlannedRun]]:
    """Compose and check every job of a command line, before anything is computed.

    Args:
        overrides: As typed.
        entries: All experiments.
        multirun: Whether a sweep was asked for.
        config_dir: A further folder of configuration, or None.
        watched: Goes through the jobs, and may show how far it is.

    Returns:
        The overrides to hand to Hydra, and the planned runs they unfold to.

    Raises:
        ConfigError: One line about the first thing that is wrong.
    """
    parsed = matching(parse(overrides), "experiment", entries)
    count_jobs(parsed)
    names = values_of(parsed, "experiment")
    if not names:
        raise ConfigError(f"experiment is missing: give experiment=..., one of {_listing(entries)}")
    if len(names) > 1 and not multirun:
        raise ConfigError(f"experiment={','.join(names)} is a sweep: add -m")
    known: dict[str, Any] = {}
    for name in names:
        known |= _register(name, entries)
    checked = check(parsed, known, multirun) + _searchpath(parsed, entries, config_dir)
    with hydra_here():
        # Of the many jobs of a sweep none is computed in this process.
        kept = not multirun
        runs = [_compose(job, entries, kept=kept) for job in watched(jobs(checked))]
    return checked, runs


def from_config(
    config: DictConfig, overrides: Sequence[str], entries: dict[str, ExperimentEntry]
) -> PlannedRun:
    """The planned run composed by Hydra, inside a job.

    Raises:
        ConfigError: One line about the first thing that is wrong.
    """
    name = str(config.experiment)
    known = _register(name, entries)
    reject_unknown(set(known), config)
    entry = entries[name]
    settings = build(RunSettings, config)
    spec = build(entry.load().Spec, config)
    upstream_order(name, entries)
    inputs = tuple(_upstream(upstream, settings, entries, spec) for upstream in entry.requires)
    # Asking for a run again, or for an old one, says nothing about the run.
    asked = OmegaConf.masked_copy(config, [str(key) for key in config if key not in _ASKED])
    typed = tuple(text for text in overrides if text.partition("=")[0] not in _ASKED)
    text = OmegaConf.to_yaml(asked, resolve=True)
    return PlannedRun(
        entry, settings, spec, typed, text, inputs, tuple(outside_inputs(spec).items())
    )


def _register(name: str, entries: dict[str, ExperimentEntry]) -> dict[str, Any]:
    if name not in entries:
        raise ConfigError(f"experiment={name} {no_experiment(name, entries)}")
    spec = entries[name].load().Spec
    register(name, spec)
    return dict([*fields(RunSettings), *fields(spec)])


def _compose(
    job: list[str], entries: dict[str, ExperimentEntry], *, kept: bool = False
) -> PlannedRun:
    parsed = parse(job)
    name = values_of(parsed, "experiment")[-1]
    known = _register(name, entries)
    ours = [override for override in parsed if not of_hydra(override)]
    check(ours, known, multirun=False)
    try:
        config = hydra.compose("config", overrides=job, return_hydra_config=kept)
    except (HydraException, OmegaConfBaseException, AssertionError) as error:
        raise ConfigError(_explain(error, job, known)) from error
    composed = copy.deepcopy(config) if kept else None
    if kept:
        with open_dict(config):
            del config["hydra"]
    planned = from_config(config, [override.input_line or "" for override in ours], entries)
    return replace(planned, composed=composed)


def _upstream(
    name: str, settings: RunSettings, entries: dict[str, ExperimentEntry], reader: Any
) -> PlannedRun:
    """The upstream run of a reader: the defaults, with the overrides of the reader's spec.

    A spec that reads an upstream run of another text, say, defines ``upstream(name)``, which gives
    the values of that run's fields by dotted path.
    """
    _register(name, entries)
    asked = reader.upstream(name) if hasattr(reader, "upstream") else {}
    job = [
        f"experiment={name}",
        f"scale={settings.scale.name}",
        f"seed={settings.seed}",
        f"dtype={settings.dtype.name}",
        *(quoted(key, x) if isinstance(x, str) else f"{key}={x}" for key, x in asked.items()),
    ]
    with hydra_here():
        return _compose([*job, *_searchpath([], entries, None)], entries)


@contextmanager
def hydra_here() -> Iterator[None]:
    """Context with a Hydra of its own, which reads the configuration of the checkout."""
    register_resolvers()
    # A process has one Hydra, and inside a job, or for an upstream run, there is one already.
    outer, GlobalHydra.instance().hydra = GlobalHydra.instance().hydra, None
    try:
        conf = str(checkout() / "conf")
        with hydra.initialize_config_dir(conf, version_base="1.3", job_name="run"):
            yield
    finally:
        GlobalHydra.instance().hydra = outer


def _searchpath(
    parsed: Sequence[Any], entries: dict[str, ExperimentEntry], given: str | None
) -> list[str]:
    if any(override.get_key_element() == "hydra.searchpath" for override in parsed):
        if given is not None:
            raise ConfigError("hydra.searchpath=... is given beside --config-dir: name all in one")
        return []
    folders = [str(folder) for folder in extra_conf(entries)]
    if given is not None:
        folders.append(os.path.abspath(given))
    missing = [folder for folder in folders if not Path(folder).is_dir()]
    if missing:
        raise ConfigError(f"config folder {Path(missing[0]).name!r} does not exist")
    if not folders:
        return []
    return [quoted_list("hydra.searchpath", [f"file://{folder}" for folder in folders])]


def _explain(error: Exception, job: list[str], known: dict[str, Any]) -> str:
    # Hydra's text names the override, our list of types says what it may be.
    text = str(error)
    for override in job:
        if override in text or isinstance(error, AssertionError):
            key, _, value = override.partition("=")
            if key in known:
                return f"{key}={value} must be {type_name(known[key])}"
    named = re.search(r"full_key: (\S+)", f"{error}\n{error.__cause__}")
    where = named.group(1) if named else ""
    if where in known:
        return f"{where} in the YAML file must be {type_name(known[where])}: {_line(text)}"
    if where:
        return f"{where} in the YAML file names no field{nearest(where, sorted(known))}"
    return _line(text.split("Config search path")[0])


def _line(text: str) -> str:
    return " ".join(text.split())


def _listing(entries: dict[str, ExperimentEntry]) -> str:
    return ", ".join(sorted(entries))
