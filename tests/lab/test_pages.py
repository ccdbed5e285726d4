"""Pages are made from run folders alone, with links that lead there."""

import re
import shutil
from pathlib import Path

import pytest

from circuitax.config.catalogue import ExperimentEntry
from circuitax.config.planned_runs import plan
from circuitax.lab.conduct import conduct
from circuitax.lab.pages import write_pages
from circuitax.lab.runs import DERIVED
from circuitax.lab.stop import StopFlag
from circuitax.records.manifest import write_manifest
from circuitax.records.record import Record


def test_pages(entries: dict[str, ExperimentEntry], results: Path) -> None:
    cell = plan(["experiment=house_walk", "scale=tiny", "members=2"], entries)[1][0]
    run = conduct(cell, command="typed", stop=StopFlag(), say=lambda text: None).folder
    gallery, claims, report = write_pages(
        results / "latest", {"house_walk": run}, entries, "made by"
    )
    index = gallery.read_text()
    assert '- <a id="house_walk"></a>[house_walk](gallery/further.md#house_walk)' in index
    assert "Not run yet:" in index and "house_reader" in index
    chapter = gallery.parent / "gallery" / "further.md"
    text = chapter.read_text()
    links = re.findall(r"\]\(([^)#]+)\)", text)
    assert len(links) >= 3
    for link in links:
        assert (chapter.parent / link).exists(), link
    assert f"../../house_walk/{cell.id}/figures/path.png" in links
    assert "<summary>Claims: ✔ 1 holds · ∅ 1 absent</summary>" in text
    assert "# Further experiments" in text
    html = report.read_text()
    assert "claim-walk-spreads" in html and 'src="data:image/webp;base64,' in html
    page = claims.read_text()
    rows = re.findall(r"\(\.\./claims/([\w-]+\.md)#([^)]+)\)", text)
    assert {name for _, name in rows} == {"claim-walk-spreads", "claim-walk-starts"}
    for name, row in rows:
        detail = (claims.parent / "claims" / name).read_text()
        assert page.count(f'<a id="{row}"></a>') == detail.count(f'<a id="{row}"></a>') == 1
        (code,) = re.findall(rf'<a id="{row}".*\[code\]\(([^#]+measures\.py)#L\d+\)', detail)
        assert (claims.parent / "claims" / code).is_file()
    assert "Of 1 published relations: 1 absent" in page
    every = "".join(found.read_text() for found in (claims.parent / "claims").glob("*.md"))
    assert "Reason: too few members" in every and "# Changes of claims" in every
    stale = claims.parent / "claims" / "framework.md"
    stale.write_text("of a run that is gone")
    write_pages(results / "latest", {"house_walk": run}, entries, "made by")
    assert not stale.exists() and chapter.read_text() == text


def test_a_record_that_no_longer_settles_its_claims_is_refused(
    entries: dict[str, ExperimentEntry], results: Path
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
