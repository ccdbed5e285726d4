"""Explain one prediction of a model: ``python -m experiments.explain MODEL "text"``."""

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tqdm import tqdm

from circuitax.commands.cli import Command, Option, UsageError, printable
from circuitax.config.catalogue import checkout
from circuitax.lab.runs import DamagedRun, WholeRun, newest_run, provenance

if TYPE_CHECKING:  # --help does not wait for JAX
    from tokenizers import Tokenizer

    from circuitax.kernel.model import Model
    from circuitax.kernel.run import Run

NODES = 40  # of each graph of the page

COMMAND = Command(
    "explain",
    """\
Prints what a model predicts after the text and from which tokens that comes, by all paths through
heads and MLPs, with their last heads and the neurons on them; the largest paths with a proof that
no other is larger; where heads look; the direct effects of all components, which add up to the
logit.

With another text of as many tokens (--against), or with a word in the place of the rarest word of
the text (--foil), it prints what made the model predict this here and something else there. The
difference is split without remainder, and nothing is held.

MODEL is smollm2; a GGUF file; a folder or file with a model and its tokenizer.json; a repository
in the local Hugging Face cache; or a finished run of text_models, by folder or name. The text of a
token is written with the space in front of it that it has in a text: token=" Paris". Options may
be written --token " Paris" too; a text that begins with -- goes after a lone --.
""",
    (
        "MODEL",
        "TEXT",
    ),
    (
        Option("token", "TEXT", "the token that is explained; the most probable by default", None),
        Option(
            "minus",
            "TEXT",
            "a token whose logit is subtracted; with --against the most probable one after that",
            None,
        ),
        Option("against", "TEXT", "another text, of as many tokens, that goes on otherwise", None),
        Option(
            "foil", "WORD", "--against the text with this word in the place of its rarest", None
        ),
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
            "by; with --against, what crosses between the tokens",
            None,
        ),
        Option(
            "json",
            "FILE.json",
            "also write the graph in the form of circuit-tracer, which Neuronpedia opens",
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
        Option("model", "NAME", "a model of the run, as in experiments.generate"),
        Option("member", "N", "seed of the model, counted from 0", 0, kind=int),
        Option("step", "N", "number of steps of its training", None, kind=int),
    ),
)


class _Opened(NamedTuple):
    """A model, its tokenizer, how it reads a text, the tokens of this one, and the model's name."""

    model: "Model"
    tokenizer: "Tokenizer"
    read: Callable[[str], list[int]]
    ids: list[int]
    name: str

    def word(self, token: int) -> str:
        """The text of a token."""
        from circuitax.data.tokenizer import token_text

        return token_text(self.tokenizer, token)


class _Shown(NamedTuple):
    """What is printed, the page and the graph where they are wanted, and what to ask next."""

    text: str
    page: Callable[[], str]
    graph: Callable[[], str]
    hint: str = ""


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
    if options["against"] is not None and options["foil"] is not None:
        raise UsageError("against and foil each give the other text: give one of them")
    for name, least in (("paths", 0), ("heads", 1)):
        number = options[name]
        if number is not None and number < least:
            raise UsageError(f"{name}={number} must be at least {least}")
    for name in ("page", "json"):
        if options[name] is not None:
            path = Path(options[name]).expanduser()
            if path.is_dir() or not path.parent.is_dir():
                raise UsageError(f"{name}={options[name]!r} must be a file in a folder that exists")


def _explain(options: dict[str, Any]) -> None:
    run_folder = _run_folder(options["MODEL"])
    if run_folder is None and (
        options["model"] or options["step"] is not None or options["member"]
    ):
        raise UsageError("model, member and step choose among the models of a run: give a run")
    # Importing JAX takes a second, which a mistyped option should not cost.
    import jax

    from circuitax.cores import keep_compiled_code, multiply_in_float32
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
        foil = _foil(opened, options)
        shown = _explained(opened, options) if foil is None else _contrasted(opened, foil, options)
    print(printable(shown.text))
    for name, text in (("page", shown.page), ("json", shown.graph)):
        if options[name] is not None:
            path = Path(options[name]).expanduser()
            write_text(path, text())
            print(f"{name}: {path}", file=sys.stderr)
    if shown.hint:
        print(printable(shown.hint), file=sys.stderr)
    print(
        f"{opened.name}: {len(opened.ids)} tokens, {time.monotonic() - began:.1f} s with loading "
        "and compilation",
        file=sys.stderr,
    )


def _explained(opened: _Opened, options: dict[str, Any]) -> _Shown:
    """One text."""
    from circuitax.circuits.explain.explanation import explain
    from circuitax.display.explanation_page import explanation_page

    wanted = options["page"] is not None or options["json"] is not None
    seen, asked = _run(opened, opened.ids), _asked(opened, options)
    found = explain(
        seen,
        **asked,
        name=opened.word,
        n_paths=options["paths"],
        n_heads=options["heads"],
        n_nodes=NODES if wanted else 0,
    )
    token = asked["token"]
    if token is None:
        token = int(seen.logits[options["position"]].argmax())
    rarest = opened.word(opened.ids[_rarest(opened.ids)])
    hint = f"what {rarest!r} does here: --foil WORD puts another in its place"
    if found.rival is not None:
        hint = f"why not {found.rival!r}: --minus={found.rival!r}; {hint}"
    return _Shown(
        found.text(),
        lambda: explanation_page(found, opened.name),
        lambda: found.graph(opened.ids, token, opened.name),
        hint,
    )


def _contrasted(opened: _Opened, other: list[int], options: dict[str, Any]) -> _Shown:
    """Two texts."""
    from circuitax.circuits.explain.contrasted import explain_contrast

    found = explain_contrast(
        _run(opened, opened.ids),
        _run(opened, other),
        **_asked(opened, options),
        name=opened.word,
        n_nodes=NODES,
    )
    text = found.text(lambda i: repr(opened.word(i)))
    return _Shown(text, lambda: found.page(opened.name), lambda: found.graph(opened.name))


def _foil(opened: _Opened, options: dict[str, Any]) -> list[int] | None:
    """The other text, by itself or by a word of it; None where there is none."""
    if options["against"] is not None:
        other = opened.read(options["against"])
        if len(other) != len(opened.ids):
            raise UsageError(
                f"against has {len(other)} tokens, must have the {len(opened.ids)} of the text: "
                "repeat or add a neutral word in the shorter one"
            )
        if other == opened.ids:
            raise UsageError("against is the text itself: change a word")
        return other
    if options["foil"] is None:
        return None
    at, word = _rarest(opened.ids), options["foil"]
    # Typed without the space that the word has in a text.
    spaced = opened.word(opened.ids[at]).startswith(" ") and not word.startswith(" ")
    foil = _token(opened, "foil", " " * spaced + word)
    if foil == opened.ids[at]:
        raise UsageError(f"foil={word!r} is the rarest word of the text itself")
    return [*opened.ids[:at], foil, *opened.ids[at + 1 :]]


def _rarest(ids: list[int]) -> int:
    """Where the token of the highest id stands: vocabularies begin with what is frequent."""
    return max(range(len(ids)), key=lambda i: ids[i])


def _asked(opened: _Opened, options: dict[str, Any]) -> dict[str, Any]:
    """Ids of token and subtracted token, and the position, checked."""
    n_ctx = len(opened.ids)
    if not -n_ctx <= options["position"] < n_ctx:
        raise UsageError(
            f"position={options['position']} must be from {-n_ctx} to {n_ctx - 1}: the text has "
            f"{n_ctx} tokens"
        )
    ids = {
        name: None if options[name] is None else _token(opened, name, options[name])
        for name in ("token", "minus")
    }
    return ids | {"position": options["position"]}


def _run(opened: _Opened, ids: list[int]) -> "Run":
    import jax
    import jax.numpy as jnp

    from circuitax.kernel.run import run

    compiled = jax.jit(run, static_argnames="outputs")
    return compiled(opened.model, jnp.asarray(ids), outputs=True)


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
    read = partial(read_prompt, language)
    name = f"{language.name} of {facts['experiment']} {facts['run']}, member {language.member}"
    return _Opened(language.model, language.tokenizer, read, read(options["TEXT"]), name)


def _of_source(options: dict[str, Any]) -> _Opened:
    from circuitax.models.pretrained import load_pretrained, load_tokenizer

    try:
        tokenizer = load_tokenizer(options["MODEL"])
    except FileNotFoundError as error:
        raise UsageError(
            f"MODEL={options['MODEL']!r} must be smollm2, a folder or file with a model, a cached "
            f"repository, or a finished run: {error}"
        ) from None
    read = partial(_ids, tokenizer)
    ids, model = read(options["TEXT"]), load_pretrained(options["MODEL"], dtype="float32")
    if model.n_ctx is not None and len(ids) > model.n_ctx:
        raise UsageError(f"the text has {len(ids)} tokens, must have at most n_ctx={model.n_ctx}")
    if max(ids) >= model.d_vocab:
        raise UsageError(
            f"the tokenizer gives id {max(ids)}, must be below the model's d_vocab={model.d_vocab}"
        )
    return _Opened(model, tokenizer, read, ids, options["MODEL"])


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


def _token(opened: _Opened, name: str, text: str) -> int:
    """The id of a token given as text."""
    from circuitax.data.tokenizer import encode_prompt

    ids: list[int] = encode_prompt(opened.tokenizer, text, special=False).ids
    unknown = getattr(opened.tokenizer.model, "unk_token", None)
    if len(ids) != 1 or opened.tokenizer.id_to_token(ids[0]) == unknown:
        parts = [opened.tokenizer.decode([i]) for i in ids]
        raise UsageError(f"{name}={text!r} must be one token of the vocabulary, is {parts}")
    return ids[0]
