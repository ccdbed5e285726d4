"""Viewers hold their facts, and a browser draws them; tables add up."""

import html
import json
import re
from collections.abc import Callable

import numpy as np
import pytest

from circuitax.display.tables import NumberTable, sum_table
from circuitax.display.viewers import (
    MOST,
    SCRIPTS,
    Viewer,
    attention_viewer,
    viewer_frame,
    viewer_page,
    viewer_script,
    viewer_section,
    viewer_style,
    visible,
)

GRAPH = {
    "tokens": ["one", "</script>", "two"],
    "position": 2,
    "chosen": "x",
    "logit": -1.25,
    "sink": True,
    "proof": "Proven.",
    "nodes": [
        {
            "name": "1.0",
            "label": "1.0",
            "kind": "head",
            "row": 1,
            "at": 2,
            "value": -1.5,
            "looks": [[0, 0.5, -1.75]],
            "raises": ["a"],
            "lowers": ["b"],
            "why": [
                {"title": "What moved it", "note": "", "value": 2.0, "parts": [["one (0)", 1.5]]}
            ],
        },
        {
            "name": "mlp 0.n3",
            "label": "n3",
            "kind": "unit",
            "row": 0.5,
            "at": 0,
            "value": 0.25,
            "looks": [],
            "raises": ["c"],
            "lowers": ["d"],
            "why": [],
        },
    ],
    "graphs": [
        {
            "title": "heads and neurons",
            "nodes": [0, 1],
            # Nodes 0 and 1, tokens 2 to 4, biases 5; the logit is 2.
            "edges": [
                [2, 0, -1.75, 1],
                [0, 2, -1.5, 1],
                [1, 0, 0.25, 0],
                [2, 1, 0.25, 0],
                [3, 2, 0.25, 0],
                [4, 2, 0.125, 0],
            ],
            "sources": [-2.0, 0.25, 0.25, 0.125],
            "all": {"count": 7, "size": 4.25, "into": -1.5, "intoSize": 2.0},
        },
        {
            "title": "heads",
            "nodes": [0],
            "edges": [[1, 0, -1.5, 1], [0, 1, -1.5, 1]],
            "sources": [-1.5, 0.0, 0.0, 0.0],
            "all": {"count": 2, "size": 3.0, "into": -1.5, "intoSize": 1.5},
        },
    ],
}
EXPLAINED = Viewer(
    "explanation",
    "logit of <b>",
    "Hover.",
    {
        "from": "x comes from one −2.00.",
        "graph": GRAPH,
        "tokens": ["one", "</script>", "two"],
        "position": 2,
        "next": [{"token": "x", "prob": 0.75, "logit": 2.5}],
        "effects": [
            {"name": "head 1.0", "value": -2.0, "head": "1.0"},
            {"name": "head 0.0", "value": 0.5, "head": "0.0"},
        ],
        "bias": 0.25,
        "remainder": 0.0,
        "logit": -1.25,
        "paths": {
            "rows": [
                {"name": "0.0 → 1.0", "value": -1.5, "heads": ["0.0", "1.0"]},
                {"name": "direct", "value": 0.125, "heads": []},
            ],
            "found": -1.375,
            "rest": -0.125,
            "bias": 0.25,
            "bound": 0.1,
            "complete": True,
        },
        "heads": ["1.0", "0.0"],
        "writes": [
            [[["a1", 3.0], ["b1", -2.0]], [["a2", 3.0]], [["a3", 3.0]]],
            [[["c1", 1.0]], [["c2", -1.0]], [["c3", 1.0], ["d3", -4.0]]],
        ],
        "patterns": [
            [[1, 0, 0], [0.25, 0.75, 0], [0.5, 0.1, 0.4]],
            [[1, 0, 0], [0.9, 0.1, 0], [0.05, 0.95, 0]],
        ],
    },
)
MOVING = Viewer(
    "directions",
    "Directions",
    "Move.",
    {
        "density": [1.0, 0.1],
        "panels": [
            {
                "name": "best",
                "directions": [[[1, 0], [0, 1], [0.1, 0.1]], [[1, 0], [-0.5, 0.8], [-0.5, -0.8]]],
                "loss": [0.5, 0.125],
            }
        ],
        "colours": ["#440154", "#21918c", "#90d743"],
    },
)
TABLES = Viewer(
    "tokenTables",
    "Tables",
    "Hover.",
    {
        "heads": [
            {
                "name": f"0.{head}",
                "rows": [
                    {
                        "source": f"s{head}{i}",
                        "destinations": [[f"d{head}{i}", 4.0], ["e", 1.0]],
                        "outs": [[f"o{head}{i}", 9.5], ["p", 2.0]],
                    }
                    for i in range(2)
                ],
            }
            for head in range(2)
        ]
    },
)
PATTERNS = [
    [[[1, 0, 0], [0.25, 0.75, 0], [0.5, 0.1, 0.4]], [[1, 0, 0], [0.9, 0.1, 0], [0.05, 0.95, 0]]]
]
ATTENTION = attention_viewer("Attention", ["one", "</script>", "two"], PATTERNS)
assert ATTENTION is not None
CONTRASTED = Viewer(
    "contrast",
    "x rather than y",
    "Click.",
    {
        "tokens": [["a", "</script>"], ["b", "b"]],
        "position": 1,
        "metric": "x − y",
        "delta": 2.5,
        "flow": [[2.5, 0], [0.5, 2.0], [0, 2.5]],
        "kinds": ["value", "query", "key", "gate", "unit", "logit"],
        "nodes": [
            {"name": "0.1", "kind": "head", "layer": 0, "at": 1, "value": 2.0, "raises": ["x"]}
            | {"lowers": ["y"], "moves": [[0, 2, 2.25], [1, 1, -0.25]]}
            | {"patterns": [[0.75, 0.25], [0.125, 0.875]]},
            {"name": "mlp 1", "kind": "mlp", "layer": 1, "at": 1, "value": 1.5, "raises": ["x"]}
            | {"lowers": ["y"], "moves": [], "patterns": []},
        ],
        # Nodes 0 and 1, tokens 2 and 3; the logit is 2.
        "edges": [[2, 0, 2, 2.0], [0, 1, 3, 1.5], [1, 2, 5, 1.5], [0, 2, 5, 0.5]],
    },
)
ALL = (EXPLAINED, MOVING, TABLES, ATTENTION, CONTRASTED)


def page(actions: str) -> str:
    kinds = [viewer.kind for viewer in ALL]
    return (
        f'<!doctype html><html><head><meta charset="utf-8"><link rel="icon" href="data:,">'
        f"<style>{viewer_style()}</style></head><body>{''.join(map(viewer_section, ALL))}"
        f"<script>{viewer_script(kinds)}</script><script>{actions}</script></body></html>"
    )


def test_a_section_holds_its_facts_and_nothing_ends_its_script() -> None:
    section = viewer_section(EXPLAINED)
    assert section.count("</script>") == 1 and "logit of &lt;b&gt;" in section
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', section, re.DOTALL)
    assert json.loads(data) == EXPLAINED.facts
    text = page("")
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "@import" not in text and "url(" not in text and "src=" not in text


def test_attention_is_kept_in_percent_without_what_no_causal_head_sees() -> None:
    assert ATTENTION.facts["heads"] == ["0.0", "0.1"]
    assert ATTENTION.facts["patterns"] == [
        [[100], [25, 75], [50, 10, 40]],
        [[100], [90, 10], [5, 95, 0]],
    ]
    backward = [[[[0.25, 0.75], [0.0, 1.0]]]]
    assert attention_viewer("A", ["a", "b"], backward).facts["patterns"] == [[[25, 75], [0, 100]]]
    n = int(MOST**0.5) + 1
    for none in (np.zeros((1, 1, n, n)), np.full((1, 1, 2, 2), np.nan), np.zeros((0, 3, 2, 2))):
        assert attention_viewer("A", ["t"] * none.shape[-1], none) is None


def test_a_frame_holds_the_whole_page() -> None:
    frame = viewer_frame(EXPLAINED, 300)
    (page,) = re.findall(r'srcdoc="([^"]*)"', frame)
    assert html.unescape(page) == viewer_page(EXPLAINED.title, EXPLAINED)
    assert 'sandbox="allow-scripts"' in frame and "height:300px" in frame


def test_every_script_defines_its_viewer() -> None:
    for kind in SCRIPTS:
        assert f"VIEWERS.{kind} = " in viewer_script([kind])


def test_a_browser_draws_moves_and_tells(browsed: Callable[[str], dict[str, str]]) -> None:
    actions = """
      const stages = document.querySelectorAll(".stage");
      const [explained, moving, tables, attention, contrasted] = stages;
      const note = (name, text) => document.body.setAttribute("data-" + name, text);
      const said = box => box.querySelector(".status").textContent;
      note("first", said(explained));
      explained.querySelectorAll(".token")[1].dispatchEvent(new MouseEvent("mouseenter"));
      note("hovered", said(explained));
      explained.querySelectorAll(".token")[1].focus();
      const left = new KeyboardEvent("keydown", {key: "ArrowLeft", bubbles: true});
      document.activeElement.dispatchEvent(left);
      note("keyed", said(explained));
      explained.querySelector(".paths button").click();
      note("lit", [...explained.querySelectorAll(".lit b")].map(b => b.textContent));
      explained.querySelectorAll(".paths button")[1].click();
      note("dim", [...explained.querySelectorAll(".dim b")].map(b => b.textContent));
      const least = explained.querySelector("input[type=range]");
      const cutAt = value => { least.value = value; least.dispatchEvent(new Event("input")); };
      cutAt(0);
      note("few", explained.querySelector(".shares").textContent);
      note("marks", explained.querySelectorAll(".edge .proven").length);
      cutAt(100);
      note("many", explained.querySelector(".shares").textContent);
      note("drawn", explained.querySelectorAll(".edge").length);
      const box = explained.querySelector(".node.head");
      box.focus();
      note("told", explained.querySelector(".told").textContent);
      box.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true}));
      note("about", explained.querySelector(".about").textContent);
      note("pressed", explained.querySelectorAll('.node[aria-pressed="true"]').length);
      const again = new KeyboardEvent("keydown", {key: "Escape", bubbles: true});
      explained.querySelector(".node.head").dispatchEvent(again);
      note("closed", explained.querySelector(".about").hidden);
      explained.querySelectorAll("input[type=radio]")[1].click();
      note("heads", explained.querySelectorAll(".node").length);
      const slider = moving.querySelector("input");
      const tips = () => [...moving.querySelectorAll("line")].map(a => a.getAttribute("x2"));
      note("before", tips());
      slider.value = 1;
      slider.dispatchEvent(new Event("input"));
      note("kept", moving.querySelector("figcaption").textContent);
      const bars = [...document.querySelectorAll(".text button, .heads button")];
      note("stops", bars.filter(button => button.tabIndex === 0).length);
      tables.querySelectorAll(".token")[3].focus();
      note("table", said(tables) + tables.querySelector(".outs").textContent);
      attention.querySelectorAll(".heads button")[1].click();
      attention.querySelectorAll(".token")[1].dispatchEvent(new MouseEvent("mouseenter"));
      note("attended", said(attention));
      note("reads", contrasted.querySelector(".about").textContent);
      note("arcs", contrasted.querySelectorAll(".arc.k-key").length);
      contrasted.querySelector(".node.mlp").dispatchEvent(new MouseEvent("click", {bubbles: true}));
      note("opens", contrasted.querySelector(".about").textContent);
      setTimeout(() => note("after", tips()), 600);
    """
    found = browsed(page(actions))
    assert found["first"] == (
        "Head 1.0 at two (2) looks at one (0) 50 %, two (2) 40 %, </script> (1) 10 %; "
        "it writes ▲ a3 3.0."
    )
    assert "at </script> (1)" in found["hovered"]
    assert "75 %" in found["hovered"] and found["hovered"].endswith("it writes ▲ a2 3.0.")
    assert "at one (0) looks at one (0) 100 %; it writes ▲ a1 3.0  ▼ b1 −2.0." in found["keyed"]
    assert found["few"].startswith("1 of 7 edges.") and found["marks"] == "1"
    assert found["many"].startswith(
        "6 of 7 edges. Of the logit they show −1.13 of −1.50 (75 %); of the absolute sum of the "
        "edges into it 1.88 of 2.00 (94 %), of that of all edges 4.1 of 4.3 (97 %)."
    )
    assert found["drawn"] == "6"
    assert found["told"] == (
        "1.0 at two (2) carries −1.50; it looks at one (0) 50 % and moves −1.75 from there; it "
        "reads sink one (0) −1.75, mlp 0.n3 at one (0) +0.25; what it writes raises a and lowers b."
    )
    assert "Goes out of 1.0 at two (2)the logit−1.50" in found["about"]
    assert "What moved itone (0)+1.50all others, and biases+0.50together+2.00" in found["about"]
    assert found["pressed"] == "1" and found["closed"] == "true"
    assert found["heads"] == "5", "one head, three tokens and the logit"
    assert found["lit"] == "1.0,0.0" and found["dim"] == "1.0,0.0"
    assert found["before"] == "1,0,0.1" and found["after"] == "1,-0.5,-0.5"
    assert "keeps 3 of 3 features (0, 1, 2); loss 0.1250" in found["kept"]
    assert found["attended"] == (
        "Head 0.1 at </script> (1) looks at one (0) 90 %, </script> (1) 10 %."
    )
    assert found["reads"].startswith(
        "Head 0.1 at b (1): +2.00Readsa / </script> (0)key+2.25b (1)query−0.25"
        "Looks at: first text, second textb (1)25 %88 %a / </script> (0)75 %13 %"
        "Comes froma / </script> (0)key+2.00Goes tomlp 1 at b (1)gate+1.50the logitlogit+0.50"
    )
    assert found["arcs"] == "1", "what stays in its column is no arc"
    assert found["opens"].startswith("mlp 1 at b (1): +1.50Comes from0.1 at b (1)gate+1.50Goes to")
    assert found["stops"] == "4", "one stop of the Tab key for each toolbar"
    assert "s11 … d11 → o11." in found["table"] and "o119.50p2.00" in found["table"]


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (" self", "␣self"),
        ("\n" + 19 * " ", "⏎␣×19"),
        ("\n" + 11 * " ", "⏎␣×11"),
        ("\n\n  ", "⏎⏎␣␣"),
        ("\t\x1f", "⇥·"),
        ("<|endoftext|>", "‹text›"),
        ("internationally", "internat…"),
    ],
)
def test_a_token_is_visible(token: str, text: str) -> None:
    assert visible(token) == text


def test_bars_add_up() -> None:
    terms = [("a", 3.0), ("<b>", -1.0), ("c", -4.0)]
    html = sum_table("Terms", terms, "total")
    places = [float(x) for x in re.findall(r"left:([\d.]+)%", html)]
    widths = [float(x) for x in re.findall(r"width:([\d.]+)%", html)]
    # The ends are 0, 3, 2, -2: in shares of 5 from -2 on.
    np.testing.assert_allclose(places, [40, 80, 0])
    np.testing.assert_allclose(widths, [60, 20, 80])
    assert re.findall(r">([+−][\d.]+)<", html) == ["+3.0000", "−1.0000", "−4.0000", "−2.0000"]
    assert "absolute sum of the rows 8.0000<" in html, "3, 1 and 4, which cancel to -2"
    assert "<td" in html and "&lt;b&gt;" in html and "<b>b" not in html
    # Negative bars are hollow.
    assert [("border" in bar) for bar in re.findall(r"<i style=.*?</i>", html)] == [
        False,
        True,
        True,
    ]


def test_a_table_of_numbers_is_the_same_as_text_and_as_html() -> None:
    rows = [("<a>", [0.123456, 12_345, np.nan]), *((f"b{i}", [-i, i, "1.5"]) for i in range(12))]
    table = NumberTable("Found", ("x", "n", "y"), rows, ["a note"])
    lines = table.text().splitlines()
    assert lines[1].split() == ["x", "n", "y"] and lines[2].split() == ["<a>", "+0.1235", "12,345"]
    assert lines[-2:] == ["  and 2 more", "a note"] and len(lines) == 15
    html = table.html()
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in html.split("<tr>")[1:]]
    assert cells[:3] == [
        ["", "x", "n", "y"],
        ["&lt;a&gt;", "+0.1235", "12,345", ""],
        ["b0", "0", "0", "1.5"],
    ]
    assert len(cells) == 12 and "and 2 more" in html and "a note" in html
