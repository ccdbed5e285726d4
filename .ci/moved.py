"""What moved between the accepted records of a commit and those here, as a page in Markdown.

python .ci/moved.py COMMIT > docs/releases/0.2-keys.md
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
WORDS = ("reproduced", "partly", "not reproduced", "not tested here")
HEAD = """\
# What moved between root keys

Release 0.2 froze rule, rows and settings and named root key 200 for every accepted run; {runs} of {all} are computed with it, all from {commits}. Beside each published result stands what the run before had, with another root key and often at an earlier commit, by the first of its quantities whose word moved, or else its first: how many words differ says how sure they are. Nothing was changed after a look.

Of {rows} published results {flipped} have another word. Of {quantities} quantities behind them that have an interval in both, {inside} have the new value inside the old interval and {meet} have intervals that meet (some 83 % and more than 99 % are expected if nothing but the draw differs).
"""  # noqa: E501


def before(commit: str, path: Path) -> Any:
    """A JSON file of that commit, or None."""
    command = ["git", "show", f"{commit}:{path.relative_to(ROOT).as_posix()}"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return json.loads(found.stdout) if found.returncode == 0 else None


def text(row: dict[str, Any], other: dict[str, Any]) -> str:
    """The first quantity of a row whose word is another than in the other record, or the first."""
    words = {quantity["id"]: quantity["word"] for quantity in other["quantities"]}
    quantities = row["quantities"]
    moved = [found for found in quantities if found["word"] != words.get(found["id"])]
    ours = (moved or quantities)[0]["measured"] if quantities else None
    if ours is None or ours["value"] is None:
        return "–"
    if ours["low"] == ours["high"]:
        return f"{ours['value']:.4g}"
    return f"{ours['value']:.3g} [{ours['low']:.3g}, {ours['high']:.3g}], n = {ours['n']}"


def interval(quantity: dict[str, Any]) -> tuple[float, float, float] | None:
    """Value and ends of a quantity that has an interval."""
    ours = quantity["measured"]
    if ours is None or ours["value"] is None or ours["low"] is None or ours["low"] == ours["high"]:
        return None
    return ours["value"], ours["low"], ours["high"]


def main(commit: str) -> None:
    """Print the page."""
    pairs, runs, commits, paths = (
        [],
        0,
        set(),
        sorted((ROOT / "results").glob("*/accepted/claims.json")),
    )
    for path in paths:
        old, run = before(commit, path), before(commit, path.with_name("provenance.json"))
        if old is None or run == json.loads(path.with_name("provenance.json").read_text()):
            continue
        runs += 1
        commits.add(json.loads(path.with_name("provenance.json").read_text())["commit"][:8])
        rows = {row["id"]: row for row in old}
        new = [row for row in json.loads(path.read_text()) if row["paper"] not in NOT_COUNTED]
        pairs += [(rows[row["id"]], row, path.parts[-3]) for row in new if row["id"] in rows]
    flipped = [pair for pair in pairs if pair[0]["word"] != pair[1]["word"]]
    both = []
    for old_row, row, _ in pairs:
        olds = {quantity["id"]: interval(quantity) for quantity in old_row["quantities"]}
        news = {quantity["id"]: interval(quantity) for quantity in row["quantities"]}
        both += [(olds[name], new) for name, new in news.items() if new and olds.get(name)]
    inside = sum(old[1] <= new[0] <= old[2] for old, new in both if old)
    meet = sum(old[1] <= new[2] and new[1] <= old[2] for old, new in both if old)
    said = f"commit{'s' * (len(commits) > 1)} " + ", ".join(sorted(commits))
    counts = {"rows": len(pairs), "flipped": len(flipped), "quantities": len(both)}
    print(HEAD.format(inside=inside, meet=meet, runs=runs, all=len(paths), commits=said, **counts))
    steady = [pair for pair in pairs if pair not in flipped]
    for title, found in (("Other words", flipped), ("The same words", steady)):
        print(f"## {title}\n\n| result | experiment | before | now |\n| --- | --- | --- | --- |")
        found.sort(key=lambda pair: (WORDS.index(pair[1]["word"] or WORDS[-1]), pair[2]))
        for old_row, row, name in found:
            says, words = row["says"].replace("|", "\\|"), (old_row["word"], row["word"])
            olds, news = text(old_row, row), text(row, old_row)
            olds, news = f"{words[0]}: {olds}", f"{words[1]}: {news}"
            print(f"| {says} | `{name}` | {olds} | {news} |")
        print()


# Papers of rows that are no published results.
NOT_COUNTED = ("correction", "theorem", "ours")

if __name__ == "__main__":
    main(sys.argv[1])
