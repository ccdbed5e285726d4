"""The twin of an accepted run: computed by the present code, saved, and compared."""

import platform
from collections.abc import Mapping
from importlib import metadata
from typing import Any, NamedTuple

from circuitax.config.catalogue import ExperimentEntry, checkout
from circuitax.config.identity import canonical
from circuitax.config.planned_runs import PlannedRun
from circuitax.config.schema import ConfigError
from circuitax.config.twins import Settings, new_settings, planned_twin, twin_cases, varying
from circuitax.data.corpus import TextError
from circuitax.data.files import ABSENT
from circuitax.lab.compilation import processor
from circuitax.lab.conduct import conduct, source_of
from circuitax.lab.source import LIBRARIES
from circuitax.lab.stop import StopFlag
from circuitax.records.provenance import checkout_state
from circuitax.records.twin import DIFFERENT, NOT_COMPUTED, ROUNDED, SAME, compare, digest

_LIBRARIES = (*LIBRARIES, "scipy")
# What has the more weight, where several cases of a twin have several outcomes.
_WEIGHT = (NOT_COMPUTED, SAME, ROUNDED, DIFFERENT)


class Outcome(NamedTuple):
    """Outcome of a comparison of twins.

    Attributes:
        outcome: `SAME`, `ROUNDED`, `DIFFERENT` or `NOT_COMPUTED`, the weightiest of its cases.
        variables: Variables that differ, each behind its case.
        largest: Largest difference, as `records.twin.TwinComparison` has it.
        left_out: Cases that were not computed, each with the reason.
    """

    outcome: str
    variables: tuple[str, ...]
    largest: float
    left_out: dict[str, str]


def make_twin(
    entry: ExperimentEntry,
    entries: dict[str, ExperimentEntry],
    *,
    seed: int,
    dtype: str,
    stop: StopFlag,
    derived: bool = False,
) -> dict[str, Any]:
    """A new twin of an experiment, by the present code: the contents of ``twin.json``.

    Args:
        entry: The experiment.
        entries: All experiments.
        seed: Root of all randomness, that of the accepted run.
        dtype: Type of the numbers, that of the accepted run.
        stop: Flag that a signal sets.
        derived: Whether the runs get claims and figures too.

    Raises:
        ValueError: If no case could be computed, for want of a package say.
    """
    cases, left_out = {}, {}
    for case, fields in twin_cases(entry.name).items():
        settings = new_settings(entry.name, fields, entries, seed=seed, dtype=dtype)
        try:
            cases[case] = _case(settings, entries, stop, derived)
        except TextError as error:
            left_out[case] = str(error)
    if not cases:
        raise ValueError(f"twin of {entry.name} cannot be computed: {left_out}")
    commit, dirty = checkout_state(checkout())
    return {
        "experiment": entry.name,
        "commit": commit,
        "dirty": dirty,
        **_machine(),
        "cases": cases,
        "left_out": left_out,
    }


def repeat_twin(
    kept: Mapping[str, Any],
    entries: dict[str, ExperimentEntry],
    stop: StopFlag,
    *,
    derived: bool = False,
) -> dict[str, Any]:
    """A saved twin recomputed by the present code, with its own settings.

    A case whose texts or weights are not here is left out, with the reason; one whose settings this
    code refuses has the reason in the place of its digest.

    Args:
        kept: Contents of ``twin.json``.
        entries: All experiments.
        stop: Flag that a signal sets.
        derived: Whether the runs get claims and figures too.
    """
    cases: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for case, about in kept["cases"].items():
        settings = Settings(**about["settings"])
        try:
            planned = planned_twin(settings, entries)
            if reason := _unlike(about["outside"], _outside(planned)):
                left_out[case] = reason
            else:
                cases[case] = _case(settings, entries, stop, derived)
        except ConfigError as error:
            cases[case] = {"settings": about["settings"], "refused": str(error)}
        except TextError as error:
            left_out[case] = str(error)
    commit, dirty = checkout_state(checkout())
    facts = {"experiment": kept["experiment"], "commit": commit, "dirty": dirty}
    return {**facts, **_machine(), "cases": cases, "left_out": left_out}


def compare_twins(here: Mapping[str, Any], kept: Mapping[str, Any]) -> Outcome:
    """A twin by the present code against the saved one, both as in ``twin.json``."""
    same_machine = all(kept.get(name) == here[name] for name in _machine())
    varies = set(varying(kept["experiment"]))
    outcomes, variables, largest = [], [], 0.0
    for case, about in here["cases"].items():
        if "refused" in about:
            outcomes.append(DIFFERENT)
            variables.append(f"{case}: {about['refused']}")
            continue
        there = kept["cases"][case]["digest"]
        found = compare(
            about["digest"],
            {name: mark for name, mark in there.items() if name not in varies},
            same_machine=same_machine,
            dtype=about["settings"]["dtype"],
        )
        outcomes.append(found.outcome)
        variables += [f"{case}: {name}" for name in found.variables]
        largest = max(largest, found.largest)
    outcome = max(outcomes, key=_WEIGHT.index, default=NOT_COMPUTED)
    return Outcome(outcome, tuple(variables), largest, dict(here["left_out"]))


def _case(
    settings: Settings, entries: dict[str, ExperimentEntry], stop: StopFlag, derived: bool = False
) -> dict[str, Any]:
    """One run of a twin, as saved in ``twin.json``."""
    planned = planned_twin(settings, entries)
    command = "python -m experiments.twins"
    folder = conduct(planned, command=command, stop=stop, derived=derived).folder
    return {
        "settings": settings._replace(specs=_specs(planned))._asdict(),
        "source": source_of(planned),
        "outside": _outside(planned),
        "digest": digest(folder, varying(planned.entry.name)),
    }


def _specs(planned: PlannedRun) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in planned.inputs:
        found |= _specs(item)
    return found | {planned.entry.name: canonical(planned.spec)}


def _outside(planned: PlannedRun) -> dict[str, str]:
    """Checksums of texts and weights read by a run and all upstream runs, by dotted field."""
    found: dict[str, str] = {}
    for item in planned.inputs:
        found |= _outside(item)
    return found | {f"{planned.entry.name}.{name}": mark for name, mark in planned.outside}


def _unlike(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Outside inputs that differ from those of the twin; empty if none do."""
    names = [name for name in sorted({*here, *there}) if here.get(name) != there.get(name)]
    if not names:
        return ""
    how = "is not here" if here.get(names[0], ABSENT) == ABSENT else "is not what the twin read"
    return f"{names[0]} {how}"


def _machine() -> dict[str, Any]:
    """Causes of differences in the last digits: libraries, Python and the type of processor."""
    return {
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in _LIBRARIES},
        "processor": processor(),
    }
