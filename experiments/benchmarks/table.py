"""The benchmark table: every row a ratio to a real alternative, measured in the same run.

    python -m experiments.benchmark [--only toy_training] [--rounds 7] [--out results]

Discovers ``experiments/benchmarks/*.py`` that define ``cases``; peers live in ``.venv-bench``. With
``--only`` the rows of other modules stay in the table as they were measured. A module that says
``WHEN_NAMED`` takes long, and is measured only when it is named.
"""

import argparse
import importlib
import json
import os
import platform
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jax
from tqdm import tqdm

from circuitax.cores import n_cores
from experiments.benchmarks.case import measure
from experiments.benchmarks.limits import machine_speeds

FOLDER = Path(__file__).parent


def discover() -> dict[str, Any]:
    """Name and module of every benchmark that defines ``cases``, in alphabetical order."""
    found = {}
    for path in sorted(FOLDER.glob("*.py")):
        module = importlib.import_module(f"experiments.benchmarks.{path.stem}")
        if hasattr(module, "cases"):
            found[path.stem] = module
    return found


def without_naming(known: dict[str, Any]) -> list[str]:
    """The benchmarks that are measured when none is named."""
    return [name for name, module in known.items() if not getattr(module, "WHEN_NAMED", False)]


def table(rows: list[dict[str, Any]], machine: dict[str, Any]) -> str:
    """The rows as Markdown."""
    lines = [
        "# Benchmarks",
        "",
        "Written by `python -m experiments.benchmark`. Ours and theirs take turns in one run; the",
        "ratio is the median over rounds, with the least and the largest round in brackets. The",
        "limit is what binds ours: what it needs at least of float32 matrix products, of memory or",
        "of random numbers at this machine's speeds, or a part that cannot be left out and was",
        "timed alone, all in the same rounds. Its share is how much of our figure the limit alone",
        "would take: at 100 % nothing is left to gain. Where the rest goes stands in the notes.",
        "Rounds in which others used the machine are repeated; rows that stay noisy say so.",
        "The target is what is wanted: a ratio, an amount of ours, or a share of the limit.",
        "",
        "Times of a step or of a token are in the rows of toy steps, of attention-only training",
        "and of reading tokens. Where the matmul peak binds, its share is the utilisation of the",
        "device in the model's operations (model-FLOP utilisation).",
        where_measured(rows),
        "",
        f"Machine: {machine['cores']} cores, {machine['processor']}, {machine['backend']}; matrix "
        f"products {machine['matmul'] / 1e9:.0f} GFLOP/s, memory {machine['memory'] / 1e9:.0f} "
        f"GB/s, random numbers {machine['generator'] / 1e6:.0f} million/s. JAX {machine['jax']}, "
        f"{machine['date']}; load before the run {machine['load_before']:.1f}.",
        "",
        "| what | ours | theirs | ratio | target | limit | share of it | against |",
        "|---|---|---|---|---|---|---|---|",
    ]
    notes = []
    for row in rows:
        theirs = f"{row['theirs']:.3g} {row['unit']}" if "theirs" in row else "-"
        ratio = "-"
        if "ratio" in row:
            ratio = f"{row['ratio']:.1f}x ({row['ratio_low']:.1f} to {row['ratio_high']:.1f})"
        limit, share = row.get("limit", "-"), "-"
        if "share_of_limit" in row:
            share = f"{row['share_of_limit']:.0%}"
        lines.append(
            f"| {row['name']} | {row['ours']:.3g} {row['unit']} | {theirs} | {ratio} | {aim(row)} "
            f"| {limit} | {share} | {row['peer'] or '-'} |"
        )
        noise = ""
        if row.get("noisy_rounds"):
            noise = (
                f" NOISY: others kept {row['processors_of_others']:.1f} processors busy, and "
                f"{row['noisy_rounds']} of the rounds were not quiet."
            )
        if row["note"] or noise or where_it_goes(row):
            said = f"{row['note']}. " if row["note"] else ""
            rounds = "1 round" if row["rounds"] == 1 else f"{row['rounds']} rounds"
            counted = f"{rounds}, {row['date']}."
            notes.append(f"- {row['name']}: {said}{where_it_goes(row)}{counted}{noise}")
    return "\n".join([*lines, "", *notes, ""])


def where_measured(rows: list[dict[str, Any]]) -> str:
    """Whether any row was measured on a device other than a CPU, as a sentence."""
    backends = [row.get("backend", "cpu") for row in rows]
    elsewhere = sorted(set(backends) - {"cpu"})
    if not elsewhere:
        seen = "[what was seen on a GPU](../docs/cluster.md#gpus-and-tpus)"
        return f"Every row was measured on a CPU; {seen} stands apart."
    counts = ", ".join(f"{backends.count(name)} on {name}" for name in elsewhere)
    return f"Of {len(rows)} rows, {counts}; the others on a CPU."


def aim(row: dict[str, Any]) -> str:
    """Target of a row: a ratio, and other requirements."""
    ratio = "" if row["target"] is None else f"{row['target']:g}x"
    return ", ".join(filter(None, [ratio, row.get("wanted", "")])) or "-"


def where_it_goes(row: dict[str, Any]) -> str:
    """The other limits of a row, the parts of its figure and its memory, as sentences."""
    said = ""
    others = {
        name: share
        for name, share in row.get("shares_of_limits", {}).items()
        if name != row["limit"]
    }
    if others:
        said += f"Other limits: {_shares(others)}. "
    if row.get("parts"):
        said += f"Where it goes: {_shares(row['parts'])}. "
    if "peak_mb" in row and row["unit"] != "MB":
        said += (
            f"Memory of the process: {row['peak_mb']:,.0f} MB at the most, "
            f"{row['grown_mb']:,.0f} of them in a round of ours. "
        )
    return said


def _shares(shares: dict[str, float]) -> str:
    largest_first = sorted(shares.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {share:.0%}" for name, share in largest_first)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(
        prog="experiments.benchmark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", help="benchmark modules, separated by commas")
    parser.add_argument("--rounds", type=int, default=7, help="alternating rounds, 5 or more")
    parser.add_argument("--out", type=Path, default=FOLDER.parents[1] / "results")
    options = parser.parse_args(arguments)
    known = discover()
    chosen = [name for name in options.only.split(",") if name] or without_naming(known)
    for name in chosen:
        if name not in known:
            parser.error(f"--only={name} must be one of {', '.join(known)}")
    if options.rounds < 1:
        parser.error(f"--rounds={options.rounds} must be at least 1")
    rows: list[dict[str, Any]] = []
    speeds = machine_speeds()
    machine = {
        "cores": n_cores(),
        "processor": platform.machine(),
        "backend": jax.default_backend(),
        "load_before": os.getloadavg()[0],
        **speeds()._asdict(),
        "jax": jax.__version__,
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }
    with ExitStack() as stack:
        todo = [(name, case) for name in chosen for case in known[name].cases(stack)]
        before = rows_before(options.out)
        for name, case in tqdm(todo, unit="row", disable=None):
            row = measure(case, options.rounds, speeds)
            made = {"module": name, "date": machine["date"], "backend": machine["backend"]}
            rows.append(made | row)
            # A run that is stopped keeps its rows, and those of modules that it did not reach.
            reached = {row["module"] for row in rows}
            kept = [row for row in before if row["module"] not in reached]
            whole = sorted(kept + rows, key=lambda row: row["module"])
            write(whole, machine, options.out)
    print(table(rows, machine))


def rows_before(folder: Path) -> list[dict[str, Any]]:
    """The rows of the table that is there already."""
    path = folder / "benchmarks.json"
    return json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []


def write(rows: list[dict[str, Any]], machine: dict[str, Any], folder: Path) -> None:
    """Both files of the table."""
    folder.mkdir(parents=True, exist_ok=True)
    record = {"machine": machine, "rows": rows}
    (folder / "benchmarks.json").write_text(json.dumps(record, indent=1), encoding="utf-8")
    (folder / "benchmarks.md").write_text(table(rows, machine), encoding="utf-8")
