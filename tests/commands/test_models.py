"""Commands that open a model: continue a text, explain a prediction, write an experiment."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import xarray as xr
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel

import circuitax as cx
from circuitax.commands import explain, generate, new
from circuitax.config.catalogue import VARIABLE
from circuitax.data.corpus import build_corpus, text_document
from circuitax.data.tokenizer import train_tokenizer
from circuitax.kernel.keys import derive, member_keys
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.kept_models import keep_model, notes_of_kept
from circuitax.lab import runs
from circuitax.lab.lab import Lab
from circuitax.models.transformer import init
from circuitax.records.record import Record
from circuitax.records.store import write_manifest

# What Neuronpedia's graph-schema.json (1.0.0) and circuit-tracer's graph_models.py require.
FORM: dict[str, dict[str, Any]] = {
    "metadata": {"slug": str, "scan": str, "prompt_tokens": list, "prompt": str}
    | {"transcoder_list": list, "schema_version": int, "info": dict},
    "qParams": {"pinnedIds": list, "supernodes": list, "linkType": str, "clickedId": str}
    | {"sg_pos": str},
    "nodes": {"node_id": str, "feature": int, "layer": str, "ctx_idx": int, "clerp": str}
    | {"feature_type": str, "jsNodeId": str, "token_prob": float, "is_target_logit": bool}
    | {"run_idx": int, "reverse_ctx_idx": int}
    | {"influence": float | None, "activation": float | None},
    "links": {"source": str, "target": str, "weight": float},
}
WORDS = ["<unk>", "one", "two", "three", "four", "</script>", "six"]


@pytest.fixture
def run(results: Path) -> Path:
    """What text_models leaves, with two models that were never trained; layers-1 lost member 1."""
    folder = results / "text_models" / "abc123"
    documents = [text_document(name, "a text of letters\n" * 9) for name in "ab"]
    specs = {f"layers-{n}": TransformerSpec(257, 16, n, 1, 4) for n in (0, 1)}
    lab = Lab(folder)
    for name, spec in specs.items():
        keys = member_keys(derive(jax.random.key(0), name), 2)
        keep_model(lab, name, 20, jax.vmap(lambda key, spec=spec: init(key, spec))(keys))
    lab.save_text("tokenizer.json", train_tokenizer(build_corpus("ab", documents), 257).to_str())
    alive = xr.DataArray([[True, True], [True, False]], {"model": list(specs)}, ("model", "member"))
    Record(xr.Dataset({"alive": alive}), notes=notes_of_kept(specs, (20,))).save(folder)
    facts = {"experiment": "text_models", "run": folder.name, "dtype": "float32"}
    (folder / "provenance.json").write_text(json.dumps(facts))
    write_manifest(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of seven words, and its tokenizer."""
    place = tmp_path_factory.mktemp("models") / "tiny"
    spec = TransformerSpec(d_vocab=len(WORDS), n_ctx=6, n_layers=2, n_heads=2, d_model=8)
    cx.save_pretrained(cx.init(jax.random.key(1), spec), place)
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(place / "tokenizer.json"))
    return place


def test_a_text_is_continued_the_same_way_each_time(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = set()
    for name in (str(run), "text_models/abc123", "abc123", "text_models"):
        assert generate.main([name, "let", "--tokens", "4"]) == 0
        printed = capsys.readouterr()
        assert printed.out.startswith("let")
        assert "layers-1 of text_models abc123, member 0, step 20: 4 tokens read" in printed.err
        texts.add(printed.out)
    assert len(texts) == 1
    assert generate.main(["abc123", "--greedy", "model=layers-0", "--", "--x"]) == 0
    assert capsys.readouterr().out.startswith("--x")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["text_modals", "x"], "did you mean 'text_models'?"),
        (["abc123"], "required: PROMPT"),
        (["abc123", "x", "--tokens=99"], "tokens=99 must be at least 1 and at most 15"),
        (["abc123", "x", "--greedy", "--top-k=3"], "greedy takes the most probable token"),
        (["abc123", "x", "--model=layer-1"], "did you mean 'layers-1'?"),
        (["abc123", "x", "--member=1"], "member=1 of layers-1 must be another: it diverged"),
    ],
)
def test_a_mistake_about_a_text(
    run: Path, capsys: pytest.CaptureFixture[str], typed: list[str], said: str
) -> None:
    assert generate.main(typed) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


def test_a_damaged_run_is_not_read(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "arrays" / "tokenizer.json").write_text("{}")
    for command in (generate, explain):
        assert command.main(["text_models", "x"]) == 2
        assert "arrays/tokenizer.json is damaged" in capsys.readouterr().err


def test_a_prediction_is_explained_and_its_page_written(
    folder: Path, results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    words = ["--token", "two", "--minus=six", "--position=2", f"--page={page}"]
    assert explain.main([str(folder), "one two </script> four", *words]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("logit of 'two' minus 'six' after '</script>': ")
    assert page.read_text(encoding="utf-8").count("</script>") == 2
    for typed, said in (
        ([str(folder), "one nine"], "'nine' is no token of this vocabulary"),
        (["nobody/nothing", "one"], "MODEL='nobody/nothing' must be smollm2, a folder"),
        ([str(folder), "one", "--heads=0"], "heads=0 must be at least 1"),
    ):
        assert explain.main(typed) == 2
        assert said in capsys.readouterr().err


def check_form(graph: dict[str, Any]) -> None:
    """Require the fields, their types, and that every id is that of one node."""
    assert graph.keys() == FORM.keys()
    for name, fields in FORM.items():
        for item in graph[name] if isinstance(graph[name], list) else [graph[name]]:
            assert item.keys() == fields.keys()
            assert all(isinstance(item[field], kind) for field, kind in fields.items()), item
    ids = [node["node_id"] for node in graph["nodes"]]
    asked = graph["qParams"]
    named = {*asked["pinnedIds"], *(i for group in asked["supernodes"] for i in group[1:])}
    named |= {link[end] for link in graph["links"] for end in ("source", "target")}
    assert len(set(ids)) == len(ids) and named | {asked["clickedId"]} <= set(ids)
    places = {node["ctx_idx"] for node in graph["nodes"]}
    assert places <= set(range(len(graph["metadata"]["prompt_tokens"])))


def test_two_texts_are_contrasted_and_the_graph_leaves_in_the_known_form(
    folder: Path, results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, graph = tmp_path / "page.html", tmp_path / "graph.json"
    files = [f"--page={page}", f"--json={graph}", "--token=six", "--minus=two"]
    assert explain.main([str(folder), "one two four", "--against=one six four", *files]) == 0
    told = capsys.readouterr().out
    assert told.startswith("'six' rather than 'two' because 'two' instead of 'six': ")
    found = json.loads(graph.read_text("utf-8"))
    check_form(found)
    # What enters the logit is what the first line says.
    (goal,) = (node["node_id"] for node in found["nodes"] if node["feature_type"] == "logit")
    into = sum(link["weight"] for link in found["links"] if link["target"] == goal)
    np.testing.assert_allclose(into, float(told.split(": ")[1].split(",")[0]), atol=6e-3)
    assert '"metric":"six − two"' in page.read_text("utf-8")
    # A foil takes the place of the word of the highest id, here the same.
    at = max(range(3), key=lambda i: WORDS.index(["one", "two", "four"][i]))
    words = ["one", "two", "four"]
    words[at] = "six"
    firsts = []
    for other in ("--foil=six", f"--against={' '.join(words)}"):
        assert explain.main([str(folder), "one two four", other]) == 0
        firsts.append(capsys.readouterr().out)
    assert firsts[0] == firsts[1]
    # One text.
    assert explain.main([str(folder), "one two four", f"--json={graph}"]) == 0
    assert "--foil WORD" in capsys.readouterr().err
    check_form(json.loads(graph.read_text("utf-8")))
    for typed, said in (
        (["--against=one two"], "against has 2 tokens, must have the 3 of the text: repeat or"),
        (["--against=one two four"], "against is the text itself"),
        (["--against=one", "--foil=two"], "give one of them"),
    ):
        assert explain.main([str(folder), "one two four", *typed]) == 2
        assert said in capsys.readouterr().err


def test_a_new_experiment_runs_at_once(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine"
    assert new.main(["my_walk", f"folder={mine}"]) == 0
    assert new.main(["my_walk", f"folder={mine}"]) == 2
    assert "is there already" in capsys.readouterr().err
    command = [sys.executable, "-m", "experiments.run", "experiment=my_walk", "scale=tiny"]
    environment = {**os.environ, VARIABLE: str(mine), runs.VARIABLE: str(results)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "A random sign matrix keeps squared lengths on average" in ended.stderr
