"""Merge the runs of a sweep into one dataset: ``python -m experiments.collect experiment=NAME``."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from omegaconf import OmegaConf

from circuitax.commands.cli import Command, Option, wanted
from circuitax.config.catalogue import ExperimentEntry, discover
from circuitax.config.spec import SCALES
from circuitax.display.tables import counted
from circuitax.lab.drawing import draw_figures
from circuitax.lab.runs import (
    WholeRun,
    finished_runs,
    flat,
    in_one_line,
    provenance,
    results_folder,
    run_folder,
    settled_rows,
    shown,
    spec_fields,
    sweeps_of,
    typed_fields,
    whole,
)
from circuitax.lab.settle import settle_run
from circuitax.records.merge import Part, merge, missing_text
from circuitax.records.record import DATA, TABLES, Record
from circuitax.records.store import whole_folder, write_manifest

COMMAND = Command(
    "collect",
    """\
Merges the finished runs of the latest sweep (or of all) into one dataset whose dimensions are the
swept fields, with tidy tables beside it, in results/NAME/collected/. Figures that a table marks
with of_sweep are drawn.
""",
    options=(
        Option("experiment", "NAME", "the experiment whose runs are merged"),
        Option("sweep", "latest|all|STAMP", "the sweep that is merged", "latest"),
        Option(
            "over",
            "field,...",
            "the axes; by default the fields that differ between the runs, except those that only "
            "follow a swept field (a width that the configuration takes from another width)",
        ),
        Option("scale", "SCALE", "scale of the runs; all of them by default", allowed=SCALES),
        Option(
            "missing",
            "",
            "what a missing run or member does: fail stops with its name; allow leaves its cell "
            "without a number and names it in the notes of the dataset",
            "fail",
            ("fail", "allow"),
        ),
    ),
    needed=True,
)


@COMMAND.entry
def main(options: dict[str, Any]) -> int:
    """Merge and report the result; exit status 2 when runs are missing or do not fit."""
    if not options["experiment"]:
        raise ValueError("experiment is missing: give experiment=NAME")
    entries = discover()
    name, *others = wanted(options["experiment"], entries)
    if others:
        raise ValueError(f"experiment={options['experiment']} must be one experiment")
    folder = collect(entries[name], options)
    record = Record.load(folder)
    sizes = ", ".join(f"{dim} {size}" for dim, size in record.data.sizes.items())
    print(f"{counted(len(record.notes['runs']), 'run')}, {sizes}: {shown(folder)}")
    print(f"labelled arrays, for xarray.open_dataset: {shown(folder / DATA)}")
    # The longest table has the most axes.
    tables = sorted((folder / TABLES).glob("*.csv"), key=lambda path: -path.stat().st_size)
    if tables:
        smaller = f"; smaller: {', '.join(path.name for path in tables[1:])}" * (len(tables) > 1)
        print(f"table: {shown(tables[0])}{smaller}")
    if record.notes["follow"]:
        print(f"follow the axes: {', '.join(record.notes['follow'])}")
    for key in ("missing", "left_out"):
        if record.notes[key]:
            print(f"{key.replace('_', ' ')}: {missing_text(record.notes[key])}")
    try:
        for path in draw_figures(folder, entries[name], of_sweep=True):
            print(shown(path))
    except Exception as error:  # the data are kept
        print(f"error: figures failed: {in_one_line(error)}", file=sys.stderr)
        return 1
    return 0


def collect(entry: ExperimentEntry, options: Mapping[str, str]) -> WholeRun:
    """The folder of the merged dataset."""
    name = entry.name
    label, found, absent = _runs(name, options["sweep"])
    runs = [whole(run) for run in found]
    if options["scale"]:
        runs = [run for run in runs if provenance(run)["scale"] == options["scale"]]
    if absent and options["missing"] == "fail":
        jobs = "; ".join(" ".join(job["overrides"]) for job in absent)
        raise ValueError(f"{len(absent)} runs of sweep {label} are not finished: {jobs}")
    if not runs:
        raise ValueError(f"experiment={name} has no finished run to collect")
    for run in runs:
        settle_run(run, entry)
    facts = [_facts(run) for run in runs]
    typed = {key for run in runs for key in typed_fields(run)}
    over = [path for path in options["over"].split(",") if path]
    axes, follow = _axes(facts, typed, over)
    parts = []
    for run, values in zip(runs, facts, strict=True):
        record = Record.load(run)
        point = {path: values[path] for path in axes}
        data = record.data
        if not any(isinstance(value, list) for value in point.values()):
            data = data.assign(_measured(run, record))
        parts.append(Part(run.name, point, data, tuple(record.notes.get("ragged", ()))))
    merged = merge(parts, [_planned(job["overrides"]) for job in absent])
    if merged.missing and options["missing"] == "fail":
        raise ValueError(f"missing: {missing_text(merged.missing)}; missing=allow leaves holes")
    missing = merged.missing + [" ".join(job["overrides"]) for job in absent]
    notes = {
        "experiment": name,
        "axes": axes,
        "follow": follow,
        "runs": [run.name for run in runs],
        "sources": sorted({provenance(run)["source"] for run in runs}),
        "missing": list(dict.fromkeys(missing)),
        "left_out": merged.left_out,
        "partial": merged.partial,
    }
    target = results_folder() / name / "collected" / label
    with whole_folder(target) as folder:
        Record(merged.data, notes=notes).save(folder)
        write_manifest(folder)
    return whole(target)


def _runs(name: str, sweep: str) -> tuple[str, list[Path], list[dict[str, Any]]]:
    noted = {} if sweep == "all" else sweeps_of(name)
    if sweep == "all" or (sweep == "latest" and not noted):
        return "all", finished_runs(name), []
    label = list(noted)[-1] if sweep == "latest" else sweep
    if label not in noted:
        raise ValueError(f"sweep={sweep} must be latest, all or one of {', '.join(noted)}")
    done = {run.name for run in finished_runs(name)}
    runs = [run_folder(name, job["run"]) for job in noted[label] if job["run"] in done]
    return label, list(dict.fromkeys(runs)), [j for j in noted[label] if j["run"] not in done]


def _facts(run: WholeRun) -> dict[str, Any]:
    facts = provenance(run)
    values = {key: facts[key] for key in ("scale", "seed", "dtype")}
    return values | spec_fields(run)


def _axes(
    facts: list[dict[str, Any]], typed: set[str], over: list[str]
) -> tuple[list[str], list[str]]:
    """The swept fields that span the sweep, and those that depend on them."""
    paths = sorted(set().union(*facts))
    unknown = [path for path in over if path not in paths]
    if unknown:
        raise ValueError(f"over={unknown[0]} must be one of {', '.join(paths)}")
    varying = [path for path in paths if any(f.get(path) != facts[0].get(path) for f in facts)]
    leading = over or [path for path in varying if path in typed]
    follow = [p for p in varying if p not in {*leading, *typed} and _follows(p, leading, facts)]
    axes = [path for path in varying if path not in follow]
    if over and set(axes) - set(over):
        raise ValueError(
            f"over={','.join(over)} leaves out {', '.join(sorted(set(axes) - set(over)))}, "
            "in which the runs differ too"
        )
    return over or axes, follow


def _follows(path: str, leading: list[str], facts: list[dict[str, Any]]) -> bool:
    """Whether this field is a function of the swept fields."""
    if not leading:
        return False
    points = [json.dumps([fact.get(name) for name in leading]) for fact in facts]
    both = {(point, json.dumps(fact.get(path))) for point, fact in zip(points, facts, strict=True)}
    return len(both) == len(set(points))


def _planned(overrides: list[str]) -> dict[str, Any]:
    values = OmegaConf.to_container(OmegaConf.from_dotlist(overrides))
    return flat(cast(dict[str, Any], values))


def _measured(run: WholeRun, record: Record) -> dict[str, Any]:
    """Every quantity behind the rows of a run, with its interval and n."""
    columns: dict[str, Any] = {}
    for each in (each for settled in settled_rows(run) for each in settled.quantities):
        if (x := each.estimate) is not None:
            name = each.quantity.id
            ends = {f"{name}_low": x.low, f"{name}_high": x.high, f"{name}_n": x.n}
            columns |= {name: x.value, **ends}
    return {key: value for key, value in columns.items() if key not in record.data.variables}
