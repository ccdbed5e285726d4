"""The rows of the benchmarks as a page in Markdown."""

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
The target is what is wanted: a ratio, an amount of ours, or a share of the limit.

Times of a step or of a token are in the rows of toy steps, of attention-only training
and of reading tokens. Where the matmul peak binds, its share is the utilisation of the
device in the model's operations (model-FLOP utilisation).
{where}

Machine: {cores} cores, {processor}, {backend}; matrix products {matmul:.0f} GFLOP/s, memory \
{memory:.0f} GB/s, random numbers {generator:.0f} million/s. JAX {jax}, {date}; load before the \
run {load_before:.1f}.

| what | ours | theirs | ratio | target | limit | share of it | against |
|---|---|---|---|---|---|---|---|
"""


def page(rows: list[dict[str, Any]], machine: dict[str, Any]) -> str:
    """The table and its notes."""
    speeds = {"matmul": 1e9, "memory": 1e9, "generator": 1e6}
    shown = machine | {name: machine[name] / unit for name, unit in speeds.items()}
    head = HEAD.format(where=where_measured(rows), **shown)
    lines = [f"| {' | '.join(cells(row))} |" for row in rows]
    return head + "\n".join([*lines, "", *(note(row) for row in rows if note(row)), ""])


def cells(row: dict[str, Any]) -> list[str]:
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
    return [row["name"], ours, theirs, ratio, aim, limit, share, row["peer"] or "-"]


def where_measured(rows: list[dict[str, Any]]) -> str:
    """Whether any row was measured on a device other than a CPU, as a sentence."""
    backends = [row.get("backend", "cpu") for row in rows]
    elsewhere = sorted(set(backends) - {"cpu"})
    if not elsewhere:
        seen = "[what was seen on a GPU](../docs/cluster.md#gpus-and-tpus)"
        return f"Every row was measured on a CPU; {seen} stands apart."
    counts = ", ".join(f"{backends.count(name)} on {name}" for name in elsewhere)
    return f"Of {len(rows)} rows, {counts}; the others on a CPU."


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
