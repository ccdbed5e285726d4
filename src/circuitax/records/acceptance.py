"""The headline statements of the papers, as listed on the acceptance page, and their outcomes."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from circuitax.records.claim_sections import anchor
from circuitax.records.claim_texts import counts_text
from circuitax.records.claims import HOLDS, NOT_RUN, SettledClaim

_RESULT = re.compile(r"[FOTU]\d+|S0\.\d+")
_CLAIMS = re.compile(r"`(\w+): ([\w., -]+)`")
_NOT_TRIED = "not tried: "


class Result(NamedTuple):
    """A row of the acceptance page.

    Attributes:
        name: Figure or result, such as ``"O4"``.
        shows: What it must show.
        claims: Pairs of experiment and claim that stand for it.
        not_tried: Why nothing stands for it, or for a part of it; may be empty.
    """

    name: str
    shows: str
    claims: tuple[tuple[str, str], ...]
    not_tried: str


def results_of(page: str) -> Iterator[Result]:
    """The rows of figures and results of the acceptance page, in its order.

    Raises:
        ValueError: If a row has neither a claim nor a reason why it was not tried.
    """
    for line in page.splitlines():
        cells = [text.strip() for text in line.strip("| ").split(" | ")]
        if len(cells) != 3 or not _RESULT.fullmatch(cells[0]):
            continue
        claims = tuple(
            (experiment, claim)
            for experiment, names in _CLAIMS.findall(cells[2])
            for claim in names.split(", ")
        )
        not_tried = cells[2].partition(_NOT_TRIED)[2]
        if not claims and not not_tried:
            raise ValueError(f"row {cells[0]} needs a claim, or to say why it was not tried")
        yield Result(cells[0], cells[1], claims, not_tried)


def outcome(result: Result, verdicts: Mapping[str, SettledClaim]) -> str:
    """Outcome of a result: held, or the counts of its verdicts and the claims that do not hold."""
    found = [verdicts[claim] for _, claim in result.claims if claim in verdicts]
    settled = [one for one in found if one.verdict != NOT_RUN]
    texts = []
    if settled and all(one.verdict == HOLDS for one in settled):
        texts.append(f"**held** ({len(settled)} of {len(found)} claims, the others not run)")
        if len(settled) == len(found):
            texts[-1] = f"**held** ({len(found)} claims)" if len(found) > 1 else "**held**"
    elif found:
        texts.append(counts_text([one.verdict for one in found]))
        texts += [
            f"{one.verdict}: [`{one.claim.id}`](#{anchor(one.claim.id)})"
            for one in settled
            if one.verdict != HOLDS
        ]
    if result.not_tried:
        texts.append(f"not tried: {result.not_tried}")
    return "; ".join(texts) or "no run yet"


def outcome_table(page: str, verdicts: Mapping[str, SettledClaim]) -> str:
    """Every result with its outcome, as Markdown.

    Args:
        page: Text of the acceptance page.
        verdicts: Verdicts of all runs shown, by the claim's id.
    """
    lines = ["| result | must show | outcome |", "|" + " --- |" * 3]
    for result in results_of(page):
        lines.append(f"| {result.name} | {result.shows} | {outcome(result, verdicts)} |")
    return "\n".join(lines)
