"""The ceilings of ceilings.toml: one line for each that is broken, and exit status 1."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOTED = ROOT / ".cache" / "suite.json"  # written by tests/conftest.py
# Notes on a release say what became of every claim, once.
NOTES = "docs/releases"


def tracked(*folders: str) -> list[Path]:
    """Files that git knows, below folders."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *folders], cwd=ROOT, capture_output=True, check=True, text=True
    )
    return [path for name in listed.stdout.split("\0") if (path := ROOT / name).is_file()]


def lines(paths: list[Path], suffix: str) -> int:
    """Lines of files of one kind."""
    return sum(len(p.read_text("utf-8").splitlines()) for p in paths if p.suffix == suffix)


def measured(ceilings: dict) -> list[tuple[str, float, float]]:
    """Name, number and ceiling of everything that is counted."""
    found = [(f"lines of {d}", lines(tracked(d), ".py"), n) for d, n in ceilings["lines"].items()]
    one = ceilings["experiment"]
    tables = [p for p in tracked("experiments") if p.name == "claims.toml"]
    for table in tables:
        files, name = tracked(str(table.parent.relative_to(ROOT))), table.parent.name
        most = one["over"].get(name, {})
        for kind, suffix in (("python", ".py"), ("table", ".toml")):
            ceiling = most.get(kind, one[kind])
            found.append((f"lines of {name}, {kind}", lines(files, suffix), ceiling))
    ids = {row["id"] for t in tables for row in tomllib.loads(t.read_text("utf-8")).get("row", [])}
    counts = dict.fromkeys(ids, 0)
    for path in tracked():
        text = path.suffix in {".py", ".md", ".toml", ".json", ".yaml", ".txt"}
        if text and NOTES not in path.as_posix():
            words = set(re.findall(r"[\w.-]+", path.read_text("utf-8")))
            for name in words & ids:
                # Words of one part may mean something else.
                counts[name] += "-" in name
    most_files = max(counts.values(), default=0)
    worst = max(counts, key=counts.__getitem__, default="")
    found.append((f"files with row {worst!r}", most_files, ceilings["files"]["row"]))
    stub = (ROOT / "src/circuitax/__init__.pyi").read_text("utf-8")
    public = set(re.findall(r"import \w+ as (\w+)", stub))
    found.append(("names of cx", len(public), ceilings["names"]["public"]))
    if NOTED.is_file():
        noted = json.loads(NOTED.read_text("utf-8"))
        found += [(f"{k} of the suite", noted[k], n) for k, n in ceilings["suite"].items()]
    return found


def main() -> int:
    """Print what is broken."""
    ceilings = tomllib.loads((ROOT / ".ci" / "ceilings.toml").read_text("utf-8"))
    found = measured(ceilings)
    broken = [(name, n, most) for name, n, most in found if n > most]
    for name, n, most in broken:
        print(f"{name}: {n:g}, at most {most:g}")
    print(f"ratchets: {len(found) - len(broken)} of {len(found)} hold")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
