"""Snapshots of code (twins): a tiny run, and a digest of each of its variables.

An accepted run was computed by older code, perhaps in hours. Its twin is a small run by the same
code: whoever changes the code computes it again, and sees which variables have other numbers.
"""

import hashlib
import json
import logging
import math
import multiprocessing
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from safetensors.numpy import load_file

from circuitax.config.catalogue import ExperimentEntry, checkout, discover, upstream_order
from circuitax.data.corpus import TextError
from circuitax.data.files import ABSENT, checksum
from circuitax.kernel.compiled import use_fast_compile_flags
from circuitax.lab.runs import TWIN, VARIABLE, WholeRun, provenance, work_folder
from circuitax.lab.source import LIBRARIES, checkout_state
from circuitax.records.record import Record

if TYPE_CHECKING:  # pages say what became of twins, and do not wait for JAX
    from circuitax.config.plan import PlannedRun

# Values of each variable that a twin keeps, evenly spaced, so that a difference has a size.
N_VALUES = 8
# Significant digits of these values: more than float32 has, fewer than a page of JSON needs.
_DIGITS = 10
# A difference of this share of a variable's largest value may be rounding, on another processor or
# with other libraries: the few steps of a twin amplify it.
ROUNDING = {"float32": 1e-3, "float64": 1e-9}

# Outcomes; a twin is not computed where a package or a text that it reads is not there.
SAME, ROUNDED, DIFFERENT = "same", "rounded", "different"
NOT_COMPUTED = "not computed"
FILE = "twins.yaml"  # fields of twins, in conf/
FAILED = "failed"  # a twin that raised an error
# What has the more weight, where several cases of a twin have several outcomes.
_WEIGHT = (NOT_COMPUTED, SAME, ROUNDED, DIFFERENT)


def read_twin(run: WholeRun) -> dict[str, Any] | None:
    """The twin of an accepted run; None if it has none."""
    return _read(run / TWIN)


def checked(kept: Mapping[str, dict[str, Any]], jobs: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each experiment with the outcome of its twin by the present code, as they are computed."""
    with _pool(min(jobs, len(kept) or 1)) as pool:
        waiting = {pool.submit(repeat, twin): name for name, twin in kept.items()}
        for future in as_completed(waiting):
            try:
                outcome = future.result()
            except Exception as error:
                reason = f"{type(error).__name__}: {error}".splitlines()[0]
                outcome = {"outcome": FAILED, "reason": reason}
            yield waiting[future], outcome


def made(runs: Mapping[str, WholeRun]) -> dict[str, dict[str, Any]]:
    """A new twin for the run of each experiment, by the present code."""
    facts = {name: provenance(run) for name, run in runs.items()}
    with _pool(1) as pool:
        waiting = {n: pool.submit(make, n, f["seed"], f["dtype"]) for n, f in facts.items()}
        return {name: future.result() for name, future in waiting.items()}


def make(name: str, seed: int, dtype: str) -> dict[str, Any]:
    """A new twin of an experiment: the content of ``twin.json``."""
    from circuitax.config.plan import plan

    entries, cases, left_out = discover(), {}, {}
    for case, fields in _declared(name).get("cases", {"small": {}}).items():
        typed = [f"{path}={_plain(value)}" for path, value in fields.items()]
        job = [f"experiment={name}", "scale=tiny", f"seed={seed}", f"dtype={dtype}", *typed]
        (planned,) = plan(job, entries)[1]
        settings = {"seed": seed, "dtype": dtype, "specs": _specs(planned)}
        try:
            cases[case] = _case(settings, entries)
        except TextError as error:
            left_out[case] = str(error)
    if not cases:
        raise ValueError(f"twin of {name} cannot be computed: {left_out}")
    commit, dirty = checkout_state(checkout())
    facts = {"experiment": name, "commit": commit, "dirty": dirty}
    return {**facts, **_machine(), "cases": cases, "left_out": left_out}


def repeat(kept: Mapping[str, Any]) -> dict[str, Any]:
    """The outcome of a twin by the present code: a word, variables, and the largest difference.

    Fields that were added since have their defaults; cases whose text or weights are not here are
    left out, each with the reason.
    """
    entries, varies = discover(), set(_declared(kept["experiment"]).get("varies", ()))
    same_machine = all(kept.get(name) == value for name, value in _machine().items())
    outcomes, variables, largest, left_out = [NOT_COMPUTED], [], 0.0, {}
    for case, there in kept["cases"].items():
        try:
            planned = planned_twin(there["settings"], entries)
            if reason := _unlike(there["outside"], _outside(planned)):
                left_out[case] = reason
                continue
            here = _case(there["settings"], entries)
        except TextError as error:
            left_out[case] = str(error)
            continue
        except ValueError as error:  # its settings are refused now
            outcomes.append(DIFFERENT)
            variables.append(f"{case}: {error}")
            continue
        marks = {name: mark for name, mark in there["digest"].items() if name not in varies}
        dtype = there["settings"]["dtype"]
        found = compare(here["digest"], marks, same_machine=same_machine, dtype=dtype)
        outcomes.append(found.outcome)
        variables += [f"{case}: {name}" for name in found.variables]
        largest = max(largest, found.largest)
    return {
        "outcome": max(outcomes, key=_WEIGHT.index),
        "variables": variables,
        # JSON has no infinity, and a variable that is not there has no size.
        "largest": largest if math.isfinite(largest) else None,
        "left_out": left_out,
    }


def planned_twin(settings: Mapping[str, Any], entries: dict[str, ExperimentEntry]) -> "PlannedRun":
    """The run of a twin's settings; later fields have their defaults."""
    from circuitax.config.plan import PlannedRun
    from circuitax.config.spec import (
        ConfigError,
        Precision,
        RunSettings,
        Scale,
        build,
        outside_inputs,
        writable,
    )

    runs: dict[str, PlannedRun] = {}
    for name in upstream_order(list(settings["specs"])[-1], entries):
        if name not in settings["specs"]:
            raise ConfigError(f"twin: {name} is read now and has no settings in it")
        kind = entries[name].load().Spec
        root = RunSettings(name, Scale.tiny, settings["seed"], Precision[settings["dtype"]])
        try:
            config = OmegaConf.merge(writable(kind), OmegaConf.create(settings["specs"][name]))
        except OmegaConfBaseException as error:
            raise ConfigError(f"twin of {name}: {str(error).splitlines()[0]}") from error
        spec = build(kind, cast(DictConfig, config))
        inputs = tuple(runs[item] for item in entries[name].requires)
        text = OmegaConf.to_yaml(config, resolve=True)
        outside = tuple(outside_inputs(spec).items())
        runs[name] = PlannedRun(entries[name], root, spec, (), text, inputs, outside)
    return runs[name]


def in_words(outcome: Mapping[str, Any]) -> str:
    """One line about the outcome of a twin."""
    word = outcome["outcome"]
    said = [word]
    if word == FAILED:
        said.append(outcome["reason"])
    if word in (ROUNDED, DIFFERENT):
        variables, size = outcome["variables"], outcome["largest"]
        more = f" and {len(variables) - 6} more" if len(variables) > 6 else ""
        how = "not comparable" if size is None else f"largest difference {size:.1e}"
        said.append(f"{how} in {', '.join(variables[:6])}{more}")
    said += [f"{case} not computed: {why}" for case, why in outcome.get("left_out", {}).items()]
    return "; ".join(said)


def _case(settings: Mapping[str, Any], entries: dict[str, ExperimentEntry]) -> dict[str, Any]:
    """One run of a twin, as kept in ``twin.json``."""
    import jax

    from circuitax.cores import keep_compiled_code, multiply_in_float32
    from circuitax.lab.execute import execute
    from circuitax.lab.loop import StopFlag

    planned = planned_twin(settings, entries)
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        keep_compiled_code(checkout() / ".cache")
    multiply_in_float32()
    with StopFlag() as stop:
        command = "python -m experiments.twins"
        folder = execute(planned, command=command, stop=stop, derived=False).folder
    jax.clear_caches()
    varies = _declared(planned.entry.name).get("varies", ())
    return {
        "settings": {**settings, "specs": _specs(planned)},
        "source": provenance(folder)["source"],
        "outside": _outside(planned),
        "digest": digest(folder, varies),
    }


def _specs(planned: "PlannedRun") -> dict[str, Any]:
    """Specs of a run and of all its upstream runs as plain values, its own last."""
    from circuitax.config.spec import canonical

    found: dict[str, Any] = {}
    for item in planned.planned_inputs:
        found |= _specs(item)
    return found | {planned.entry.name: canonical(planned.spec)}


def _outside(planned: "PlannedRun") -> dict[str, str]:
    """Checksums of texts and weights read by a run and all upstream runs, by dotted field."""
    found: dict[str, str] = {}
    for item in planned.planned_inputs:
        found |= _outside(item)
    return found | {f"{planned.entry.name}.{name}": mark for name, mark in planned.outside}


def _unlike(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """What a twin read from outside that is not so here; empty if all is."""
    names = [name for name in sorted({*here, *there}) if here.get(name) != there.get(name)]
    if not names:
        return ""
    how = "is not here" if here.get(names[0], ABSENT) == ABSENT else "is not what the twin read"
    return f"{names[0]} {how}"


def _machine() -> dict[str, Any]:
    """Causes of differences in the last digits: libraries, Python and the type of processor."""
    from circuitax.cores import processor

    versions = {name: metadata.version(name) for name in LIBRARIES}
    return {
        "python": platform.python_version(),
        "versions": versions,
        "processor": processor(),
    }


def _pool(jobs: int) -> ProcessPoolExecutor:
    """Processes with the XLA flags and the number of devices of twins."""
    spawn = multiprocessing.get_context("spawn")
    results = (str(work_folder() / "twins"),)
    return ProcessPoolExecutor(jobs, mp_context=spawn, initializer=_prepare, initargs=results)


def _prepare(results: str) -> None:
    # What the command that asks has for itself is not for twins.
    for variable in ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES"):
        os.environ.pop(variable, None)
    use_fast_compile_flags()
    os.environ[VARIABLE] = results
    # Progress of runs that take seconds, side by side, is for nobody.
    logging.getLogger("circuitax").propagate = False
    sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # for the process's life


def _plain(value: Any) -> str:
    """A value in Hydra's grammar."""
    if isinstance(value, list):
        return f"[{','.join(map(_plain, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _declared(name: str) -> dict[str, Any]:
    return dict(_file().get(name, {}))


@lru_cache(maxsize=1)
def _file() -> dict[str, Any]:
    path = checkout() / "conf" / FILE
    found = OmegaConf.to_container(OmegaConf.load(path)) if path.is_file() else {}
    return cast(dict[str, Any], found)


def _read(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise ValueError(f"{path.parent.name}/{path.name} is damaged: {error}") from error


class TwinComparison(NamedTuple):
    """Differences between two twins.

    Attributes:
        outcome: `SAME`: every variable of the kept twin has the same bits. `ROUNDED`: libraries or
            processor are others, and no number differs by more than rounding. `DIFFERENT`: all
            else.
        variables: The variables that differ; for `DIFFERENT` those that differ by more than
            rounding.
        largest: Largest difference among the values that twins keep, as a share of the largest
            value of the variable; infinite where only one twin has a number.
    """

    outcome: str
    variables: tuple[str, ...] = ()
    largest: float = 0.0


def digest(run: Path, varies: Iterable[str] = ()) -> dict[str, Any]:
    """Digest of every variable of a finished run: of its record, its notes and its arrays.

    Each is ``[sha256, values, type]``: of type, axes, shape and bytes, and up to `N_VALUES` of the
    numbers. Arrays beside the record, and what is not numbers, have no values and no type; nor has
    a variable of a twin that was made before types were kept.

    Args:
        run: Folder of a finished run.
        varies: Names to leave out, since they are not the same twice, such as seconds.
    """
    record = Record.load(run)
    found: dict[str, Any] = {}
    for name, variable in record.data.variables.items():
        array = np.asarray(variable.values)
        found[str(name)] = [_mark(array, variable.dims), _values(array), array.dtype.name]
    for name, note in record.notes.items():
        text = json.dumps(note, sort_keys=True, allow_nan=True)
        found[f"notes/{name}"] = [hashlib.sha256(text.encode()).hexdigest()[:16], []]
    for path in sorted((run / "arrays").glob("*")):
        if path.suffix == ".safetensors":
            for name, array in sorted(load_file(path).items()):
                found[f"arrays/{path.stem}/{name}"] = [_mark(array, ()), []]
        else:
            found[f"arrays/{path.name}"] = [checksum(path)[:16], []]
    left_out = set(varies)
    return {name: about for name, about in found.items() if name not in left_out}


def compare(
    here: Mapping[str, Any], there: Mapping[str, Any], *, same_machine: bool, dtype: str
) -> TwinComparison:
    """Differences between two digests of one twin.

    Args:
        here: Digest by the present code.
        there: Digest that the accepted run carries.
        same_machine: Whether libraries and kind of processor are the same, so that bits should be.
        dtype: Type of the numbers computed with, a key of `ROUNDING`.
    """
    # A variable that only newer code records moves none of the accepted numbers.
    changed = [name for name in sorted(there) if here.get(name, [])[:2] != there[name][:2]]
    if not changed:
        return TwinComparison(SAME)
    sizes = {name: _difference(here.get(name), there.get(name)) for name in changed}
    largest = max(sizes.values())
    # What is chosen by numbers, such as an index, may change with their last digits: it is no
    # difference of its own where some number was rounded.
    limits = {name: _rounding(here.get(name), dtype) for name in changed}
    beyond = [name for name, size in sizes.items() if size > limits[name]]
    rounded = any(size <= limits[n] and _has_fractions(there[n]) for n, size in sizes.items())
    if same_machine or beyond or not rounded:
        return TwinComparison(
            DIFFERENT, tuple(beyond if beyond and not same_machine else changed), largest
        )
    return TwinComparison(ROUNDED, tuple(changed), largest)


def _rounding(here: Any, dtype: str) -> float:
    """The limit of a variable: in a run of float64 some are computed in float32 on purpose."""
    kind = here[2] if here is not None and len(here) > 2 else dtype
    return max(ROUNDING[dtype], ROUNDING.get(kind, 0.0))


def _has_fractions(kept: Any) -> bool:
    return any(value is not None and not float(value).is_integer() for value in kept[1])


def _mark(array: np.ndarray, dims: Iterable[Any]) -> str:
    """Digest of an array; texts of any width count as texts."""
    if array.dtype.kind in "OUST":
        content = json.dumps(array.astype(str).tolist()).encode()
        kind = "text"
    else:
        content, kind = np.ascontiguousarray(array).tobytes(), array.dtype.str
    head = json.dumps([kind, [str(dim) for dim in dims], list(array.shape)])
    return hashlib.sha256(head.encode() + content).hexdigest()[:16]


def _values(array: np.ndarray) -> list[float | None]:
    """A sample of an array's numbers after the largest one's size; None for NaN and infinity."""
    if array.dtype.kind not in "fiu" or array.size == 0:
        return []
    flat = array.ravel().astype(np.float64)
    finite = np.abs(flat[np.isfinite(flat)])
    where = np.unique(np.linspace(0, flat.size - 1, N_VALUES).round().astype(int))
    kept = [finite.max() if finite.size else math.nan, *flat[where]]
    return [float(f"{x:.{_DIGITS}g}") if math.isfinite(x) else None for x in kept]


def _difference(here: Any, there: Any) -> float:
    """Largest difference of two variables over the largest value; inf for unequal shapes."""
    if here is None or there is None or len(here[1]) != len(there[1]):
        return math.inf
    if any((x is None) != (y is None) for x, y in zip(here[1], there[1], strict=True)):
        return math.inf
    pairs = [(x, y) for x, y in zip(here[1], there[1], strict=True) if x is not None]
    scale = max((abs(pairs[0][0]), abs(pairs[0][1]))) if pairs else 0.0
    return max((abs(x - y) for x, y in pairs), default=0.0) / scale if scale else 0.0
