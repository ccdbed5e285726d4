"""The landing page: its data are those of the accepted records, and in a browser it moves."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from circuitax.records.landing import SCENES, octahedron_picture

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/index.html"
TEXT = PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def records() -> dict[str, xr.Dataset]:
    found = {}
    for name in {name for scene in SCENES for name in scene.experiments}:
        path = ROOT / "results" / name / "accepted/data.nc"
        if path.is_file():
            with xr.open_dataset(path) as kept:
                found[name] = kept.load()
    return found


def test_the_page_is_small_loads_nothing_and_holds_what_the_records_say(
    records: dict[str, xr.Dataset],
) -> None:
    assert len(TEXT.encode()) < 150_000
    assert not re.findall(r'https?://(?!www\.w3\.org)|@import|url\(|\ssrc="', TEXT)
    (held,) = re.findall(r'<script type="application/json" id="scene-data">(.*?)</script>', TEXT)
    drawn = [scene for scene in SCENES if set(scene.experiments) <= set(records)]
    facts = {s.name: s.facts(*(records[n] for n in s.experiments)) for s in drawn}
    assert json.loads(held) == json.loads(json.dumps(facts))
    picture = (ROOT / "docs/pictures/octahedron.svg").read_text(encoding="utf-8")
    assert picture == octahedron_picture(facts["octahedron"]) and len(picture) < 400_000
    for link in re.findall(r'href="([^"#]+)"', TEXT.replace('href="data:,"', "")):
        assert (PAGE.parent / link).exists(), link


def test_the_shapes_are_what_the_titles_say(records: dict[str, xr.Dataset]) -> None:
    octahedron, phase, induction = (
        scene.facts(*(records[n] for n in scene.experiments)) for scene in SCENES[:3]
    )
    W = np.array(octahedron["W"]) / 100
    unit = W[-1] / np.linalg.norm(W[-1], axis=0)
    cosines = unit.T @ unit
    # Each feature of one set is opposite one of the other set, and upright on all that remain.
    assert sorted(cosines[:3, 3:].argmin(axis=1)) == [0, 1, 2]
    assert (np.sort(cosines, axis=1)[:, 0] < -0.97).all()
    assert (np.abs(np.sort(cosines, axis=1)[:, 1:5]) < 0.25).all()
    assert np.linalg.norm(W[0], axis=0).max() < 0.5
    one, two = (np.array(phase["W"]) / 100)[..., 0], (np.array(phase["W"]) / 100)[..., 1]
    np.testing.assert_allclose(one[0] + two[0], 0, atol=0.02)  # rare: one opposite the other
    assert two[-1, 0] == 0 < abs(one[-1, 0]) and one[-1, -1] == 0  # dense: the important one
    layers, places = np.array(induction["loss"]), np.array(induction["place"])
    again = places > induction["repeats"]
    assert layers[1, -1, again].max() < 20 < 200 < layers[0, -1, again].min()
    assert np.array(induction["scores"]["prefix matching"])[:, -1].tolist() == [13, 85]


def test_in_a_browser_it_turns_slides_and_tells(
    browsed: Callable[[str, str], dict[str, str]],
) -> None:
    actions = """<script>
      const note = (name, text) => document.body.setAttribute("data-" + name, text);
      const tips = () => [...document.querySelectorAll(".tip")].map(c => c.getAttribute("cx"));
      const [steps, train, ball, map] = ["[data-key=step]", "[data-key=train]", ".turn", ".map"]
        .map(each => document.querySelector(each));
      const hand = (target, kind, x, y) => target.dispatchEvent(
        new PointerEvent(kind, { clientX: x, clientY: y, bubbles: true }));
      const slide = (input, value) => {
        input.value = value;
        for (const kind of ["input", "change"]) input.dispatchEvent(new Event(kind));
      };
      const press = (target, key) => target.dispatchEvent(new KeyboardEvent("keydown", { key }));
      note("linked", steps.parentNode.textContent);
      note("start", tips());
      hand(ball, "pointerdown", 50, 50);
      hand(document.body, "pointermove", 90, 60);
      hand(document.body, "pointerup", 90, 60);
      hand(document.body, "pointermove", 290, 160);
      note("dragged", tips());
      press(ball, "ArrowLeft");
      note("keyed", tips());
      slide(steps, 100);
      note("slid", steps.parentNode.textContent);
      note("address", location.hash);
      const box = map.getBoundingClientRect(), scale = box.height / 270;
      const middle = box.left + box.width / 2;
      hand(map, "pointermove", middle - 100 * scale, box.top + 20 * scale);
      note("dense", document.querySelector("#moving-phase .said").textContent);
      press(map, "ArrowRight");
      note("next", document.querySelector("#moving-phase .said").textContent);
      slide(train, 0);
      note("before", document.querySelector("#moving-induction .said").textContent);
      const sharp = () => [...document.querySelectorAll("#moving-induction rect")]
        .filter(cell => cell.getAttribute("fill-opacity") > 0.5).length;
      note("blurred", sharp());
      slide(train, 40);
      note("sharp", sharp());
    </script>"""
    found = browsed(TEXT.replace("</html>", actions + "</html>"), "#step=36&train=40")
    assert found["linked"] == "training step 2160" and found["slid"] == "training step 6000"
    assert len({found[name] for name in ("start", "dragged", "keyed")}) == 3
    assert "step=100" in found["address"]
    assert "the weights are 0.00 and 1.00" in found["dense"]
    assert found["dense"].startswith("Density 1.0,") and found["next"].startswith("Density 0.82,")
    # Of 2 heads x 16 rows; the first row has one place to look at.
    assert 2 <= int(found["blurred"]) < 10 and 25 < int(found["sharp"]) <= 32
    assert "one layer 3.5" in found["before"] and "two layers 3.5" in found["before"]
