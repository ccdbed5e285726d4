"""The entry that continues a text: which run, which model, and one line for each mistake."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import jax
import numpy as np
import pytest
import xarray as xr

from circuitax.commands import explain, generate
from circuitax.commands.accept import promote
from circuitax.data.corpus import build_corpus, text_document
from circuitax.data.tokenizer import train_tokenizer
from circuitax.kernel.keys import derive, member_keys
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.kept_models import keep_model, notes_of_kept, publish_model
from circuitax.lab import compilation
from circuitax.lab.arrays import load_tree, write_arrays
from circuitax.lab.lab import Lab
from circuitax.lab.language_model import open_language_model
from circuitax.models.transformer import init
from circuitax.records.manifest import damage, write_manifest
from circuitax.records.record import Record

PUBLISHED = {"layers-0": 1, "layers-1": 0}
SPEC = TransformerSpec(d_vocab=257, n_ctx=16, n_layers=1, n_heads=1, d_model=4)


def a_run(folder: Path, *, weights: bool = True, models: bool = True) -> Path:
    """What text_models leaves, with two models that were never trained; layers-1 lost member 1."""
    documents = [text_document(name, "a text of letters\n" * 9) for name in "ab"]
    specs = {"layers-0": TransformerSpec(257, 16, 0, 1, 4), "layers-1": SPEC}
    lab = Lab(folder)
    if weights:
        for name, spec in specs.items():
            keys = member_keys(derive(jax.random.key(0), name), 2)
            members = jax.vmap(lambda key, spec=spec: init(key, spec))(keys)
            for step in (0, 20):
                keep_model(lab, name, step, members)
            publish_model(lab, name, members[PUBLISHED[name]])
        lab.save_text(
            "tokenizer.json", train_tokenizer(build_corpus("ab", documents), 257).to_str()
        )
    alive = xr.DataArray([[True, True], [True, False]], {"model": list(specs)}, ("model", "member"))
    Record(
        xr.Dataset({"alive": alive}),
        notes=notes_of_kept(specs, (0, 20), PUBLISHED) if models else {},
    ).save(folder)
    facts = {"experiment": "text_models", "run": folder.name, "dtype": "float32"}
    (folder / "provenance.json").write_text(json.dumps(facts))
    write_manifest(folder)
    return folder


@pytest.fixture
def run(results: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compilation, "keep_compiled_code", lambda folder: folder)
    return a_run(results / "text_models" / "abc123")


def test_every_name_of_a_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = set()
    for name in (str(run), "text_models/abc123", "abc123", "text_models"):
        assert generate.main([name, "let", "--tokens", "4"]) == 0
        out = capsys.readouterr()
        assert out.out.startswith("let") and out.out.endswith("\n")
        assert "layers-1 of text_models abc123, member 0, step 20: 4 tokens read" in out.err
        texts.add(out.out)
    assert len(texts) == 1, "the same command gives the same text"


def test_options_choose(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    which = ["--model=layers-0", "--member=1", "--step", "0"]
    how = ["--samples", "2", "--tokens=3", "--top-k", "9", "--top-p", "0.9", "--temperature=2"]
    assert generate.main(["abc123", "", *which, *how]) == 0
    out = capsys.readouterr()
    assert out.out.startswith("--- sample 0\n") and "\n--- sample 1\n" in out.out
    assert "layers-0 of text_models abc123, member 1, step 0: 1 tokens read" in out.err
    assert generate.main(["abc123", "--greedy", "--", "--x"]) == 0
    assert capsys.readouterr().out.startswith("--x")
    shown = generate._printable("a\x1b[31m\n\tb")
    assert shown == "a\ufffd[31m\n\tb", "a terminal must not obey what a model writes"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["text_modals", "x"], "RUN=text_modals must be the folder of a finished run, or an exp"),
        (["text_modals", "x"], "(did you mean 'text_models'?)"),
        (["x" * 5000, "x"], "xxx... must be the folder of a finished run: it is too long"),
        (["abc123"], "PROMPT is missing: give RUN PROMPT"),
        (["abc123", "two", "words"], "'words' is one too many"),
        (["abc123", "x", "--tokns=3"], "--tokns=3 is no option (did you mean '--tokens'?)"),
        (["abc123", "x", "--tokens"], "--tokens: expected one argument"),
        (["abc123", "x", "--tokens=many"], "tokens=many must be an integer"),
        (["abc123", "x", "--tokens=99"], "tokens=99 must be at least 1 and at most 15"),
        (["abc123", "x", "--temperature=hot"], "temperature=hot must be a number"),
        (["abc123", "x", "--temperature=-1"], "temperature=-1.0 must be finite and not negative"),
        (["abc123", "x", "--top-p=2"], "top_p=2.0 must lie in (0, 1]"),
        (["abc123", "x", "--top-k=0"], "top_k=0 must be at least 1"),
        (["abc123", "x", "--seed=-1"], "seed=-1 must be between 0 and 2147483647"),
        (["abc123", "x", "--seed=99999999999"], "seed=99999999999 must be between 0"),
        (["abc123", "x", "--greedy", "--top-k=3"], "greedy takes the most probable token: no temp"),
        (["abc123", "x", "--greedy", "--samples=2"], "samples=2 must be 1 when greedy"),
        (["abc123", "x", "--model=layer-1"], "model=layer-1 must be one of layers-0, layers-1"),
        (["abc123", "x", "--model=layer-1"], "(did you mean 'layers-1'?)"),
        (["abc123", "x", "--step=7"], "step=7 must be one of 0, 20"),
        (["abc123", "x", "--member=2"], "member=2 of layers-1 must be 0 to 1"),
        (["abc123", "x", "--member=1"], "member=1 of layers-1 must be another: it diverged"),
        (["abc123", "x" * 16], "PROMPT has 16 tokens, it must have at most 15"),
    ],
)
def test_mistakes(
    run: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert generate.main(arguments) == 2
    said = capsys.readouterr()
    assert message in said.err and said.err.startswith("error: ") and said.err.count("\n") == 1
    assert not said.out


def test_a_fresh_clone_continues_a_text_without_training(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the accepted run is there: one member of each model, in half precision."""
    trained = {
        name: open_language_model(run, name, member).model for name, member in PUBLISHED.items()
    }
    assert generate.main(["text_models", "let", "--greedy", "--tokens", "4"]) == 0
    before = capsys.readouterr().out
    promote(run, run.parent / "accepted", {})
    shutil.rmtree(run)
    accepted = run.parent / "accepted"
    names = {path.name for path in (accepted / "arrays").iterdir()}
    assert names == {
        "published-layers-0.safetensors",
        "published-layers-1.safetensors",
        "tokenizer.json",
    }
    assert generate.main(["text_models", "let", "--greedy", "--tokens", "4"]) == 0
    said = capsys.readouterr()
    assert said.out == before and "layers-1 of text_models abc123, member 0, step 20" in said.err
    for name, member in PUBLISHED.items():
        model = open_language_model(accepted, name, member).model
        assert model.W_E.dtype == trained[name].W_E.dtype
        np.testing.assert_allclose(model.W_U, trained[name].W_U, rtol=2**-10, atol=1e-7)
    for options in (["--member=1"], ["--step=0"]):
        assert generate.main(["text_models", "x", *options]) == 2
        assert "must be member 0 of layers-1 after step 20" in capsys.readouterr().err
    assert damage(accepted) == ""


def test_runs_without_models(
    run: Path, walk: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    a_run(run.parent / "accepted", weights=False)
    assert generate.main(["text_models", "x"]) == 0, "a computed run comes before the accepted one"
    bare = a_run(run.parent / "def456", models=False)
    assert walk() == 0
    capsys.readouterr()
    for name, message in (
        ("text_models/accepted", "keeps no weights (accepted results are small enough for git)"),
        (str(bare), "keeps no language models with their tokenizer"),
        ("house_walk", "keeps no language models with their tokenizer"),
    ):
        assert generate.main([name, "x"]) == 2
        assert message in capsys.readouterr().err
    a_run(run.parent.parent / "other" / "abc123")
    assert generate.main(["abc123", "x"]) == 2
    said = capsys.readouterr().err
    assert "RUN=abc123 must name one run: there are other/abc123, text_models/abc123" in said
    assert generate.main(["--help"]) == 0 and generate.main([]) == 2


def test_explain_reads_the_same_runs(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = run / "page.html"
    assert explain.main(["abc123", "let", "--model=layers-1", "--page", str(page)]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("logit of ") and "after 't'" in said.out
    assert "the largest" in said.out, "the ledger of an attention-only model is complete"
    assert "layers-1 of text_models abc123, member 0: 4 tokens" in said.err
    assert "layers-1 of text_models abc123" in page.read_text(encoding="utf-8")
    for arguments, message in (
        (["abc123", "x" * 16], "PROMPT has 16 tokens, it must have at most 15"),
        (["abc123", "x", "--model=layer-1"], "model=layer-1 must be one of layers-0, layers-1"),
        (["abc123", "x", "--position=2"], "position=2 must be from -2 to 1"),
        (["abc123", "x", "--token=let"], "token='let' must be one token of the vocabulary"),
    ):
        assert explain.main(arguments) == 2
        said = capsys.readouterr()
        assert message in said.err and said.err.count("\n") == 1 and not said.out


@pytest.mark.parametrize("damage", ["nan", "shape"])
def test_damaged_weights_are_refused_in_one_line(
    run: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    file = run / "arrays" / "layers-1-step-20.safetensors"
    arrays = load_tree(file)
    W_U = arrays["W_U"]
    arrays["W_U"] = np.full_like(W_U, np.nan) if damage == "nan" else W_U[:, :2]
    write_arrays(file, arrays)
    write_manifest(run)
    for entry in (generate, explain):
        assert entry.main(["abc123", "let"]) == 2
        said = capsys.readouterr()
        assert said.err.startswith("error: ") and said.err.count("\n") == 1 and not said.out
        wanted = (
            "W_U must be finite"
            if damage == "nan"
            else "W_U has shape (2, 2, 257), must be (*, 4, 257)"
        )
        assert wanted in said.err and "layers-1" in said.err


@pytest.mark.parametrize("entry", [generate, explain])
def test_one_bit_of_a_tokenizer_is_noticed(
    run: Path, capsys: pytest.CaptureFixture[str], entry: ModuleType
) -> None:
    file = run / "arrays" / "tokenizer.json"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    assert entry.main(["text_models", "let"]) == 2
    assert "must be whole, but arrays/tokenizer.json is damaged" in capsys.readouterr().err
