"""Every experiment has its configuration, says what it is, and composes at every scale."""

from pathlib import Path

import pytest

from circuitax.config.catalogue import checkout, discover
from circuitax.config.planned_runs import plan

ENTRIES = discover()


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_experiment_composes_at_every_scale(name: str) -> None:
    entry = ENTRIES[name]
    file = entry.conf / "experiment" / f"{name}.yaml"
    header = file.read_text().split("\n\n")[0]
    assert header.startswith("# @package _global_\n")
    assert f"python -m experiments.run experiment={name}" in header
    assert entry.message, "the first line of the module's docstring is shown by --help"
    assert entry.budget_seconds < float("inf"), "BUDGET_SECONDS must be stated"
    found = {
        scale: plan([f"experiment={name}", f"scale={scale}"], ENTRIES)[1][0].id
        for scale in ("tiny", "quick", "evening", "paper")
    }
    assert len(set(found.values())) == 4


def test_every_configuration_has_its_experiment() -> None:
    files = {path.stem for path in (checkout() / "conf" / "experiment").glob("*.yaml")}
    assert files == set(ENTRIES)


def test_claims_have_ids_of_their_own() -> None:
    claims = [c for entry in ENTRIES.values() for c in getattr(entry.load(), "CLAIMS", ())]
    ids = [claim.id for claim in claims]
    assert len(set(ids)) == len(ids), sorted({name for name in ids if ids.count(name) > 1})


def test_launchers_compose() -> None:
    name = min(ENTRIES)
    names = [path.stem for path in Path(checkout() / "conf/hydra/launcher").glob("*.yaml")]
    assert sorted(names) == ["cores", "local", "slurm_cpu", "slurm_gpu"]
    for launcher in names:
        plan([f"experiment={name}", f"hydra/launcher={launcher}"], ENTRIES)
