"""Compare the code with accepted runs: ``python -m experiments.twins [only=a,b]``."""

from typing import Any

from circuitax.commands.cli import Command, Option, n_jobs, wanted
from circuitax.config.catalogue import discover
from circuitax.lab.runs import DamagedRun, accepted_run, whole
from circuitax.lab.snapshot import (
    DIFFERENT,
    FAILED,
    NOT_COMPUTED,
    ROUNDED,
    SAME,
    checked,
    in_words,
    read_twin,
)

COMMAND = Command(
    "twins",
    """\
A twin is a small run by the code that computed an accepted run, kept as digests of its variables in
results/NAME/accepted/twin.json. This command computes every twin with the code that is here and
says what became of it:
  same          every variable has the same bits
  rounded       processor or libraries are others, and no number differs by more than rounding
  different     named variables differ: accepted numbers may not be those of this code
  not computed  a package or text that it reads is not here, or is another one
Exit status 1 if one is different, or could not be computed for an error.
""",
    options=(
        Option("only", "a,b", "experiments; all of them by default"),
        Option("jobs", "N", "twins side by side", "1"),
    ),
)


@COMMAND.entry
def main(options: dict[str, Any]) -> int:
    """Check twins; exit status 1 if one is different, 2 if nothing was done."""
    jobs, kept, damaged = n_jobs(options["jobs"]), {}, {}
    for name in wanted(options["only"], discover()):
        try:
            twin = read_twin(whole(accepted_run(name)))
        except DamagedRun as error:
            damaged[name] = {"outcome": FAILED, "reason": str(error)}
            continue
        except ValueError:  # no accepted run
            twin = None
        if twin is not None:
            kept[name] = twin
        elif options["only"]:
            raise ValueError(f"only={name} has no accepted run with a twin")
    found: dict[str, dict[str, Any]] = {}
    for name, outcome in (*damaged.items(), *checked(kept, jobs)):
        found[name] = outcome
        print(f"{name}: {in_words(outcome)}", flush=True)
    words = [item["outcome"] for item in found.values()]
    order = (SAME, ROUNDED, DIFFERENT, NOT_COMPUTED, FAILED)
    print("; ".join(f"{words.count(w)} {w}" for w in order if w in words) or "no twins")
    return 1 if DIFFERENT in words or FAILED in words else 0
