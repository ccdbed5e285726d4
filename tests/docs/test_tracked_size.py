"""What git keeps of the results stays small enough to clone."""

from circuitax.config.catalogue import checkout

MEGABYTES = 25


def test_accepted_results_are_small() -> None:
    results = checkout() / "results"
    files = [*results.glob("*/accepted/**/*"), *results.glob("**/*.md"), *results.glob("*.json")]
    # PDFs are drawn when somebody wants them, and git ignores them.
    kept = [path for path in files if path.is_file() and path.suffix != ".pdf"]
    sizes = {path: path.stat().st_size for path in kept}
    assert len(sizes) > 400
    largest = sorted(sizes, key=lambda path: -sizes[path])[:5]
    assert sum(sizes.values()) <= MEGABYTES * 1e6, [str(path) for path in largest]
