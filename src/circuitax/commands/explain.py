"""Explain one prediction of a model: ``python -m experiments.explain MODEL "text"``."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tqdm import tqdm

from circuitax.commands.cli import Command, Option, UsageError
from circuitax.config.catalogue import checkout
from circuitax.lab.runs import DamagedRun, WholeRun, newest_run, provenance

if TYPE_CHECKING:  # --help does not wait for JAX
    from tokenizers import Tokenizer

    from circuitax.circuits.explain.explained import Explanation
    from circuitax.kernel.model import Model

NODES = 40  # of each graph of the page

COMMAND = Command(
    "explain",
    """\
Prints what a model predicts after the text and from which tokens that comes, by all paths through
heads and MLPs, with their last heads and the neurons on them; the largest paths with a proof that
no other is larger; where heads look; the direct effects of all components, which add up to the
logit.

MODEL is smollm2; a folder or file with a model and its tokenizer.json; a repository in the local
Hugging Face cache; or a finished run of text_models, by folder or name. The text of a token is
written with the space in front of it that it has in a text: token=" Paris". Options may be written
--token " Paris" too; a text that begins with -- goes after a lone --.
""",
    (
        "MODEL",
        "TEXT",
    ),
    (
        Option("token", "TEXT", "whose logit is explained; the most probable by default", None),
        Option("minus", "TEXT", "a token whose logit is subtracted", None),
        Option(
            "position",
            "N",
            "the token after which the prediction is read; the last by default",
            -1,
            kind=int,
        ),
        Option(
            "page",
            "FILE.html",
            "also write one page of HTML, to open in a browser: the paths as a graph of heads, "
            "neurons or MLPs over tokens and layers, with what each reads, writes, and is opened "
            "by",
            None,
        ),
        Option(
            "paths",
            "N",
            "how many paths to find, 0 for none; 10 by default where the model has few heads. "
            "Behind hundreds of heads the proof takes minutes: ask for it. The page marks them",
            None,
            kind=int,
        ),
        Option("heads", "N", "how many heads to show beside those on the paths", 12, kind=int),
        Option("model", "NAME", "which model of a run, as in experiments.generate"),
        Option("member", "N", "which seed of it, from 0", 0, kind=int),
        Option("step", "N", "after how many steps of its training", None, kind=int),
    ),
)


class _Opened(NamedTuple):
    """A model, its tokenizer, the tokens of the text, and the model's name."""

    model: "Model"
    tokenizer: "Tokenizer"
    ids: list[int]
    name: str


@COMMAND.entry
def main(options: dict[str, Any]) -> int:
    """Print the explanation; exit status 2 when the model, the text or an option is wrong."""
    _check(options)
    try:
        _explain(options)
    except FileNotFoundError as error:
        raise UsageError(str(error)) from error
    return 0


def _check(options: dict[str, Any]) -> None:
    """Refuse options that are wrong whatever the model is."""
    if not options["TEXT"]:
        raise UsageError("the text must not be empty")
    for name in ("TEXT", "token", "minus"):
        try:
            (options[name] or "").encode()
        except UnicodeEncodeError:  # bytes of another encoding, as the command line hands them on
            raise UsageError(f"{name}={options[name]!r} must be UTF-8 text") from None
    for name, least in (("paths", 0), ("heads", 1)):
        number = options[name]
        if number is not None and number < least:
            raise UsageError(f"{name}={number} must be at least {least}")
    if options["page"] is not None:
        page = Path(options["page"]).expanduser()
        if page.is_dir() or not page.parent.is_dir():
            raise UsageError(f"page={options['page']!r} must be a file in a folder that exists")


def _explain(options: dict[str, Any]) -> None:
    run_folder = _run_folder(options["MODEL"])
    if run_folder is None and (
        options["model"] or options["step"] is not None or options["member"]
    ):
        raise UsageError("model, member and step choose among the models of a run: give a run")
    # Importing JAX takes a second, which a mistyped option should not cost.
    import jax

    from circuitax.display.explanation_page import explanation_page
    from circuitax.lab.compilation import keep_compiled_code, multiply_in_float32
    from circuitax.records.store import write_text

    began = time.monotonic()
    keep_compiled_code(checkout() / ".cache")
    multiply_in_float32()
    double = run_folder is not None and provenance(run_folder)["dtype"] == "float64"
    # A terminal shows what the half minute of a first call goes to.
    with jax.enable_x64(double), tqdm(bar_format="{desc}", leave=False, disable=None) as stage:
        stage.set_description_str("opening the model")
        opened = _of_source(options) if run_folder is None else _of_run(run_folder, options)
        stage.set_description_str("compiling, and following paths through heads and MLPs")
        found = _explained(opened, options)
    print(_printable(found.text()))
    if options["page"] is not None:
        page = Path(options["page"]).expanduser()
        write_text(page, explanation_page(found, opened.name))
        print(f"page: {page}", file=sys.stderr)
    print(
        f"{opened.name}: {len(opened.ids)} tokens, {time.monotonic() - began:.1f} s with loading "
        "and compilation",
        file=sys.stderr,
    )


def _explained(opened: _Opened, options: dict[str, Any]) -> "Explanation":
    import jax
    import jax.numpy as jnp

    from circuitax.circuits.explain.explanation import explain
    from circuitax.data.tokenizer import token_text
    from circuitax.kernel.run import run

    token, minus = (_token(opened, name, options[name]) for name in ("token", "minus"))
    n_ctx = len(opened.ids)
    if not -n_ctx <= options["position"] < n_ctx:
        raise UsageError(
            f"position={options['position']} must be from {-n_ctx} to {n_ctx - 1}: the text has "
            f"{n_ctx} tokens"
        )
    compiled = jax.jit(run, static_argnames="outputs")
    return explain(
        compiled(opened.model, jnp.asarray(opened.ids), outputs=True),
        token=token,
        minus=minus,
        position=options["position"],
        name=lambda i: token_text(opened.tokenizer, i),
        n_paths=options["paths"],
        n_heads=options["heads"],
        n_nodes=0 if options["page"] is None else NODES,
    )


def _run_folder(item: str) -> WholeRun | None:
    """The finished run named by the item; None if the item names something else."""
    try:
        return newest_run(item)
    except DamagedRun:
        raise
    except ValueError:
        return None


def _of_run(folder: WholeRun, options: dict[str, Any]) -> _Opened:
    from circuitax.kit.kept_models import open_language_model, read_prompt

    facts = provenance(folder)
    language = open_language_model(folder, options["model"], options["member"], options["step"])
    ids = read_prompt(language, options["TEXT"])
    name = f"{language.name} of {facts['experiment']} {facts['run']}, member {language.member}"
    return _Opened(language.model, language.tokenizer, ids, name)


def _of_source(options: dict[str, Any]) -> _Opened:
    from circuitax.models.pretrained import load_pretrained, load_tokenizer

    try:
        tokenizer = load_tokenizer(options["MODEL"])
    except FileNotFoundError as error:
        raise UsageError(
            f"MODEL={options['MODEL']!r} must be smollm2, a folder or file with a model, a cached "
            f"repository, or a finished run: {error}"
        ) from None
    ids = _ids(tokenizer, options["TEXT"])
    model = load_pretrained(options["MODEL"])
    if model.n_ctx is not None and len(ids) > model.n_ctx:
        raise UsageError(f"the text has {len(ids)} tokens, must have at most n_ctx={model.n_ctx}")
    if max(ids) >= model.d_vocab:
        raise UsageError(
            f"the tokenizer gives id {max(ids)}, must be below the model's d_vocab={model.d_vocab}"
        )
    return _Opened(model, tokenizer, ids, options["MODEL"])


def _ids(tokenizer: "Tokenizer", text: str) -> list[int]:
    """The ids of a text, with the special tokens of the tokenizer's own file."""
    from circuitax.data.tokenizer import encode_prompt

    encoded = encode_prompt(tokenizer, text, special=True)
    ids: list[int] = encoded.ids
    unknown = getattr(tokenizer.model, "unk_token", None)
    for i, token in enumerate(encoded.tokens):
        if token == unknown:
            start, end = encoded.offsets[i]
            raise UsageError(f"{text[start:end]!r} is no token of this vocabulary")
    if not ids:
        raise UsageError(f"the text {text!r} has no tokens in this vocabulary")
    return ids


def _token(opened: _Opened, name: str, text: str | None) -> int | None:
    """The id of a token given as text."""
    from circuitax.data.tokenizer import encode_prompt

    if text is None:
        return None
    ids: list[int] = encode_prompt(opened.tokenizer, text, special=False).ids
    unknown = getattr(opened.tokenizer.model, "unk_token", None)
    if len(ids) != 1 or opened.tokenizer.id_to_token(ids[0]) == unknown:
        parts = [opened.tokenizer.decode([i]) for i in ids]
        raise UsageError(f"{name}={text!r} must be one token of the vocabulary, is {parts}")
    return ids[0]


def _printable(text: str) -> str:
    """The text without characters that the terminal cannot show."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)
