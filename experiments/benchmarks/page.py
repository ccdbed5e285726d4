"""The rows of the benchmarks as a page in Markdown."""

import re
from typing import Any

HEAD = """\
# Benchmarks

Written by `python -m experiments.benchmark`. Ours and theirs take turns in one run; the
ratio is the median over rounds, with the least and the largest round in brackets. The
limit is what binds ours: what it needs at least of float32 matrix products, of memory or
of random numbers at this machine's speeds, or a part that cannot be left out and was
timed alone, all in the same rounds. Its share is how much of our figure the limit alone
would take: at 100 % nothing is left to gain. Where the rest goes stands in the notes.
Rows of which some rounds were slowed by other work on the machine say so.
The target is what is wanted: a ratio, an amount of ours, or a share of the limit. Elsewhere are
the least and the largest median on other processors that have a file in `benchmarks/`. Each
row's own date is in its note.

Times of a step or of a token are in the rows of toy steps, of attention-only training
and of reading tokens. Where the matmul peak binds, its share is the utilisation of the
device in the model's operations (model-FLOP utilisation).
[What was seen on a GPU](../docs/cluster.md#gpus-and-tpus) stands apart.

Machine: {cores} cores, {processor}, {backend}; matrix products {matmul:.0f} GFLOP/s, memory \
{memory:.0f} GB/s, random numbers {generator:.0f} million/s. JAX {jax}, {date}; load before the \
run {load_before:.1f}.

{slower}| what | ours | theirs | ratio | elsewhere | target | limit | share of it | against |
|---|---|---|---|---|---|---|---|---|
"""


def page(tables: list[dict[str, Any]]) -> str:
    """The newest table and its notes, beside the ratios of the others."""
    rows, machine = tables[0]["rows"], tables[0]["machine"]
    speeds = {"matmul": 1e9, "memory": 1e9, "generator": 1e6}
    shown = machine | {name: machine[name] / unit for name, unit in speeds.items()}
    others = [each for table in tables[1:] for each in table["rows"]]
    known = [[each for each in others if identity(each) == identity(row)] for row in rows]
    both = list(zip(rows, known, strict=True))
    slower = [row["name"] for row, found in both if any(half_slower(row, x) for x in found)]
    said = f"At least half slower than elsewhere: {'; '.join(slower)}.\n\n" if slower else ""
    head = HEAD.format(slower=said, **shown)
    lines = [f"| {' | '.join(cells(*each))} |" for each in both]
    return head + "\n".join([*lines, "", *(note(row) for row in rows if note(row)), ""])


def identity(row: dict[str, Any]) -> tuple[str, str]:
    """What is measured against whom, whatever its version."""
    return row["name"], re.sub(r"\d[\d.]*", "", row["peer"])


def half_slower(row: dict[str, Any], other: dict[str, Any]) -> bool:
    """By ratio to the peer where both have one, since machines differ."""
    if "ratio" in row and "ratio" in other:
        return 1.5 * row["ratio"] <= other["ratio"]
    return row["ours"] >= 1.5 * other["ours"]


def cells(row: dict[str, Any], others: list[dict[str, Any]]) -> list[str]:
    """One line of the table."""
    theirs = ratio = share = "-"
    if "theirs" in row:
        theirs = f"{row['theirs']:.3g} {row['unit']}"
        ratio = f"{row['ratio']:.1f}x ({row['ratio_low']:.1f} to {row['ratio_high']:.1f})"
    if "share_of_limit" in row:
        share = f"{row['share_of_limit']:.0%}"
    target = "" if row["target"] is None else f"{row['target']:g}x"
    aim = ", ".join(filter(None, [target, row["wanted"]])) or "-"
    ours, limit = f"{row['ours']:.3g} {row['unit']}", row.get("limit", "-")
    found = sorted(each["ratio"] for each in others if "ratio" in each)
    elsewhere = " to ".join(dict.fromkeys(f"{x:.1f}x" for x in (found[:1] + found[-1:]))) or "-"
    return [row["name"], ours, theirs, ratio, elsewhere, aim, limit, share, row["peer"] or "-"]


def note(row: dict[str, Any]) -> str:
    """What to know of a row, its other limits, its parts, its memory and its rounds; or nothing."""
    limits = row.get("shares_of_limits", {}).items()
    others = {name: share for name, share in limits if name != row["limit"]}
    said = [f"{row['note']}."] if row["note"] else []
    if others:
        said.append(f"Other limits: {_shares(others)}.")
    if row.get("parts"):
        said.append(f"Where it goes: {_shares(row['parts'])}.")
    if "peak_mb" in row and row["unit"] != "MB":
        said.append(
            f"Memory of the process: {row['peak_mb']:,.0f} MB at the most, "
            f"{row['grown_mb']:,.0f} of them in a round of ours."
        )
    noise = []
    if row["noisy_rounds"]:
        noise.append(f"NOISY: {row['noisy_rounds']} of the rounds were not quiet.")
    if not said and not noise:
        return ""
    rounds = "1 round" if row["rounds"] == 1 else f"{row['rounds']} rounds"
    return f"- {row['name']}: " + " ".join([*said, f"{rounds}, {row['date']}.", *noise])


def _shares(shares: dict[str, float]) -> str:
    largest_first = sorted(shares.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {share:.0%}" for name, share in largest_first)
