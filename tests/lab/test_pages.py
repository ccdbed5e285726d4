"""Pages are made from run folders alone, with links that lead there."""

import re
import shutil
from pathlib import Path

import pytest

from circuitax.config.catalogue import Entry
from circuitax.config.cells import plan
from circuitax.lab.conduct import conduct
from circuitax.lab.pages import verdict_counts, write_pages
from circuitax.lab.runs import DERIVED, verdicts
from circuitax.lab.stop import StopFlag
from circuitax.records.manifest import write_manifest
from circuitax.records.record import Record


def test_pages(entries: dict[str, Entry], results: Path) -> None:
    cell = plan(["experiment=house_walk", "scale=tiny", "members=2"], entries)[1][0]
    run = conduct(cell, command="typed", stop=StopFlag(), say=lambda text: None).folder
    gallery, claims, report = write_pages(
        results / "latest", {"house_walk": run}, entries, "made by"
    )
    text = gallery.read_text()
    links = re.findall(r"\]\(([^)#]+)\)", text)
    assert len(links) >= 3
    for link in links:
        assert (gallery.parent / link).exists(), link
    assert f"../house_walk/{cell.id}/figures/path.png" in links
    assert "Not run yet:" in text and "house_reader" in text
    assert "<summary>Claims: ✔ 1 holds · ∅ 1 absent</summary>" in text
    assert "## Further experiments" in text
    assert verdict_counts(verdicts(run)) == "1 hold, 1 absent"
    assert verdict_counts([]) == ""
    html = report.read_text()
    assert "claim-walk-spreads" in html and 'src="data:image/webp;base64,' in html
    page = claims.read_text()
    rows = re.findall(r"\(CLAIMS\.md#([^)]+)\)", text)
    assert set(rows) == {"claim-walk-spreads", "claim-walk-starts"}
    assert all(page.count(f'<a id="{row}"></a>') == 1 for row in rows)
    assert "Of 1 published relations: 1 absent" in page
    assert "Reason: too few members" in page
    codes = re.findall(r'href="([^"#]+measures\.py)#L\d+"', page)
    assert len(codes) == 2 and all((claims.parent / code).is_file() for code in codes)


def test_a_record_that_no_longer_settles_its_claims_is_refused(
    entries: dict[str, Entry], results: Path
) -> None:
    cell = plan(["experiment=house_walk", "scale=tiny"], entries)[1][0]
    run = conduct(cell, command="typed", stop=StopFlag(), say=lambda text: None).folder
    accepted = run.with_name("accepted")
    shutil.copytree(run, accepted)
    record = Record.load(accepted)
    Record(record.data.drop_vars("end"), record.notes).save(accepted)
    write_manifest(accepted, left_out=DERIVED)
    with pytest.raises(ValueError, match=r"measure\(\) of 'house_walk' failed on the record"):
        write_pages(results / "latest", {"house_walk": accepted}, entries, "made by")
    assert not (results / "latest").exists()
