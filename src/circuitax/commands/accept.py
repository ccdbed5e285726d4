"""Keep finished runs in git: ``python -m experiments.accept [only=a,b] [run=NAME/RUN]``."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from circuitax.commands.cli import YES_NO, Command, Option, wanted
from circuitax.config.catalogue import ExperimentEntry, checkout, discover
from circuitax.lab.drawing import page_pictures
from circuitax.lab.pages import write_pages
from circuitax.lab.runs import (
    ACCEPTED,
    ARRAYS,
    DERIVED,
    FIGURES,
    FIGURES_FAILED,
    NEUTRAL,
    PROVENANCE,
    PUBLISHED,
    TOKENIZER,
    TWIN,
    WholeRun,
    finished_runs,
    provenance,
    results_folder,
    shown,
    typed_fields,
    whole,
)
from circuitax.lab.settle import settle_run
from circuitax.lab.snapshot import made
from circuitax.lab.source import changed_modules
from circuitax.records.record import TABLES
from circuitax.records.store import whole_folder, write_json, write_manifest

COMMAND = Command(
    "accept",
    """\
Copies the newest finished run of each experiment with its own defaults (or the run named) to
results/NAME/accepted/, which git tracks, and writes from all accepted runs the gallery
(results/README.md, and a page for each chapter in results/gallery/) and the ledger
(results/CLAIMS.md, and a page for each paper in results/claims/), and the landing page
(docs/index.html) where results/ is the checkout's own. Logs, long tables (their numbers
are in data.nc) and weights stay behind, but for the weights of one member of each model where an
experiment keeps them for this. A damaged run is refused, and so is one made from changed sources.
Beside each goes its twin, a small run by the same code, which experiments.twins compares with later
code; so a run is refused that other code computed than is here. The claims of all other accepted
runs are settled again, from their data alone, before anything is copied.
""",
    options=(
        Option("only", "a,b", "experiments; all of them by default"),
        Option("run", "NAME/RUN", "the run that is accepted, whatever its settings are"),
        Option("dirty", "", "whether runs from changed sources are accepted", "no", YES_NO),
        Option(
            "settle",
            "",
            "yes accepts no new run: it settles the accepted ones again, all or those of only=, "
            "and draws their figures again",
            "no",
            YES_NO,
        ),
        Option("twin", "", "whether twins are computed", "yes", YES_NO),
    ),
)
TYPED = "python -m experiments.accept"
# A table that is longer is of no use on a page, and all its numbers are in the data file.
LONGEST_TABLE = 4_096  # bytes


@COMMAND.entry
def main(options: dict[str, Any]) -> int:
    """Promote runs and write the pages; exit status 2, and nothing done, if a run is refused."""
    entries = discover()
    kept = accepted_runs(entries)
    settle = options["settle"] == "yes"
    chosen = _again(kept, options, entries) if settle else _chosen(options, entries)
    with_twins = not settle and options["twin"] == "yes"
    for name, run in chosen.items():
        if not settle:
            _refuse_strange(name, run, dirty=options["dirty"] == "yes", twin=with_twins)
    # What may be refused comes first, so that nothing is half done.
    for name, folder in {**kept, **chosen}.items():
        settle_run(whole(folder), entries[name])
    pictures = {
        name: page_pictures(run, entries[name])
        for name, run in chosen.items()
        if not (run / FIGURES_FAILED).exists()
    }
    twins = made(chosen) if with_twins else {}
    for name, run in chosen.items():
        target = results_folder() / name / ACCEPTED
        promote(run, target, pictures.get(name, {}), twins.get(name))
        print(f"{name}: {run.name} {'settled' if run == kept.get(name) else 'accepted'}")
    accepted = {name: whole(run) for name, run in accepted_runs(entries).items()}
    at_home = results_folder() == checkout() / "results"
    landing = checkout() / "docs" / "index.html" if at_home else None
    for page in write_pages(results_folder(), accepted, entries, TYPED, landing=landing):
        print(shown(page))
    return 0


def promote(
    run: WholeRun,
    target: Path,
    pictures: Mapping[str, bytes],
    twin: Mapping[str, Any] | None = None,
) -> None:
    """Copy a run's accepted files: no logs, no long tables, no weights but published ones, no PDFs.

    ``experiments.render NAME/accepted`` draws the PDFs and SVGs beside the pictures.
    """
    published = [*(run / ARRAYS).glob(f"{PUBLISHED}*")]
    with whole_folder(target) as folder:
        shutil.copytree(run, folder, dirs_exist_ok=True, ignore=_left_behind)
        for path in [*published, run / ARRAYS / TOKENIZER] if published else []:
            (folder / ARRAYS).mkdir(exist_ok=True)
            if path.is_file():
                shutil.copy2(path, folder / ARRAYS)
        for name, picture in pictures.items():
            (folder / FIGURES).mkdir(exist_ok=True)
            (folder / FIGURES / f"{name}.png").write_bytes(picture)
        if twin is not None:
            write_json(folder / TWIN, dict(twin))
        write_manifest(folder, left_out=DERIVED)


def _left_behind(folder: str, names: list[str]) -> set[str]:
    """Names of a folder's files that are not copied."""
    patterns = (ARRAYS, FIGURES, "log.txt", "*.pdf", ".*")
    left = shutil.ignore_patterns(*patterns)(folder, names)
    if Path(folder).name == TABLES:
        left |= {n for n in names if (Path(folder) / n).stat().st_size > LONGEST_TABLE}
    return left


def accepted_runs(entries: dict[str, ExperimentEntry]) -> dict[str, Path]:
    """The accepted run of each experiment that has one, cheap experiments first."""
    names = sorted(entries, key=lambda name: (entries[name].seconds("quick") or 0.0, name))
    folders = {name: results_folder() / name / ACCEPTED for name in names}
    return {name: run for name, run in folders.items() if (run / PROVENANCE).is_file()}


def _again(
    kept: dict[str, Path], options: dict[str, str], entries: dict[str, ExperimentEntry]
) -> dict[str, WholeRun]:
    """The accepted runs whose claims are to be settled again."""
    if options["run"]:
        raise ValueError(f"run={options['run']} must not stand beside settle=yes")
    names = wanted(options["only"], entries) if options["only"] else list(kept)
    for name in names:
        if name not in kept:
            raise ValueError(f"only={name} has no accepted run to settle")
    return {name: whole(kept[name]) for name in names}


def _chosen(options: dict[str, str], entries: dict[str, ExperimentEntry]) -> dict[str, WholeRun]:
    if options["run"]:
        run = whole(results_folder() / options["run"])
        name = str(provenance(run).get("experiment"))
        if name not in entries:
            raise ValueError(
                f"run={options['run']} says that it is of experiment={name!r}, which does not exist"
            )
        return {name: run}
    chosen = {}
    for name in wanted(options["only"], entries):
        if own := [run for run in finished_runs(name) if set(typed_fields(run)) <= NEUTRAL]:
            chosen[name] = whole(own[-1])
        elif options["only"]:
            raise ValueError(f"only={name} has no finished run with its own defaults")
    if not chosen:
        raise ValueError("there is no finished run to accept: run experiments.reproduce first")
    return chosen


def _refuse_strange(name: str, run: WholeRun, *, dirty: bool, twin: bool) -> None:
    """Refuse a run of changed sources, and one whose twin would be of other code."""
    facts = provenance(run)
    if facts["dirty"] is not False and not dirty:
        raise ValueError(
            f"run {name}/{run.name} was made from changed sources; commit and run again, or say "
            "dirty=yes"
        )
    if twin and (changed := changed_modules(facts.get("modules", {"(unknown)": "-"}))):
        raise ValueError(
            f"run {name}/{run.name} was computed by other code, that of commit {facts['commit']} "
            f"({changed[0]} changed): accept it there, run it again, or say twin=no"
        )
