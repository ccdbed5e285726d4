"""Pages are made from run folders alone, with links that lead there."""

import re
from pathlib import Path

from circuitax.config.catalogue import Entry
from circuitax.config.cells import plan
from circuitax.lab.conduct import conduct
from circuitax.lab.pages import verdict_counts, write_pages
from circuitax.lab.runs import verdicts
from circuitax.lab.stop import StopFlag


def test_pages(entries: dict[str, Entry], results: Path) -> None:
    cell = plan(["experiment=house_walk", "scale=tiny", "members=2"], entries)[1][0]
    run = conduct(cell, command="typed", stop=StopFlag(), say=lambda text: None).folder
    gallery, claims = write_pages(results / "latest", {"house_walk": run}, entries, "made by")
    text = gallery.read_text()
    links = re.findall(r"\]\(([^)#]+)\)", text)
    assert len(links) >= 3
    for link in links:
        assert (gallery.parent / link).exists(), link
    assert f"../house_walk/{cell.id}/figures/path.png" in links
    assert "Not run yet:" in text and "house_reader" in text
    assert "claims: 1 hold, 1 out of reach" in text
    assert verdict_counts(verdicts(run)) == "1 hold, 1 out of reach"
    assert verdict_counts([]) == ""
    page = claims.read_text()
    assert "Of 1 published results, 0 hold, 0 fail and 1 are out of reach" in page
    assert "- `walk-spreads`: too few members" in page
