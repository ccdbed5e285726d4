"""Finished runs held against the accepted ones, claim by claim."""

from collections.abc import Iterator, Mapping
from typing import Any

from circuitax.lab.runs import WholeRun, provenance, spec_fields, verdicts
from circuitax.records.agreement import (
    DIFFERS,
    NOT_REPEATED,
    Here,
    compare,
    counts_here,
    settings_text,
)
from circuitax.records.claim_texts import measured_text
from circuitax.records.claims import PUBLISHED, SettledClaim

# Fields that count independent replicates: intervals account for them.
REPLICATES = {"seeds", "n_seeds", "n_members", "full_seeds", "halving_seeds", "target_seeds"}


def held_against(
    accepted: Mapping[str, WholeRun], runs: Mapping[str, WholeRun], command: str
) -> dict[str, Here]:
    """Every claim of the accepted runs as it was measured here, by its id.

    Args:
        accepted: Folder of the accepted run, by experiment, settled.
        runs: Folder of the run made here, likewise.
        command: Command that makes a run here, without the experiment's name.
    """
    found: dict[str, Here] = {}
    for name, there in accepted.items():
        kept = {settled.claim.id: settled for settled in verdicts(there)}
        if name not in runs:
            found |= {key: Here(NOT_REPEATED, None, f"`{command}{name}`") for key in kept}
            continue
        settings = settings_text(_settings(runs[name]), _settings(there))
        made = {settled.claim.id: settled for settled in verdicts(runs[name])}
        for key, settled in kept.items():
            if key in made:
                found[key] = compare(made[key], settled, settings)
            else:
                found[key] = Here(NOT_REPEATED, None, "the run here does not make it")
    return found


def in_words(found: Mapping[str, Here], accepted: Mapping[str, WholeRun]) -> Iterator[str]:
    """Counts of the words, of published statements and of all, and a line for each that differs.

    Args:
        found: Claims by id, as `held_against` has them.
        accepted: Folder of the accepted run, by experiment.
    """
    kept = {v.claim.id: v for run in accepted.values() for v in verdicts(run)}
    if found:
        yield published_here(found, kept)
        yield f"of all {len(found)} claims: {counts_here(found.values())}"
    for name, here in found.items():
        if here.word == DIFFERS:
            numbers = measured_text(here.estimate), measured_text(kept[name].estimate)
            yield f"  {name}: {numbers[0]} here, {numbers[1]} accepted: {here.told}"


def published_here(found: Mapping[str, Here], kept: Mapping[str, SettledClaim]) -> str:
    """Count of published statements that agree with what was measured here, in words.

    Args:
        found: Claims by id, as `held_against` has them.
        kept: Verdicts of the accepted runs, by id.
    """
    chosen = [here for key, here in found.items() if kept[key].claim.origin == PUBLISHED]
    return f"Of {len(chosen)} published statements: {counts_here(chosen) or 'none'}."


def _settings(run: WholeRun) -> dict[str, Any]:
    """The fields of a run by dotted name, without replicates; of what it read, the scale."""
    facts = provenance(run)
    fields = {k: v for k, v in spec_fields(run).items() if k.rpartition(".")[2] not in REPLICATES}
    inputs = {f"scale of {name}": facts["scale"] for name in facts["inputs"]}
    return fields | inputs | {"dtype": facts["dtype"]}
