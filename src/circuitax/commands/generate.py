"""Continue a text with a trained model: ``python -m experiments.generate RUN "import os"``."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from circuitax.commands.options import disk_in_one_line, refuse
from circuitax.config.catalogue import checkout
from circuitax.config.schema import ConfigError
from circuitax.lab.runs import ACCEPTED, WholeRun, named_runs, provenance, whole
from circuitax.names import nearest

HELP = """\
usage: python -m experiments.generate RUN PROMPT [--model NAME] [--member 0] [--step N]
                                      [--tokens N] [--samples 1] [--seed 0]
                                      [--temperature 1] [--top-k K] [--top-p P] [--greedy]

Prints PROMPT with what a model writes after it. RUN is the folder of a finished run of text_models,
text_models/RUN below results/, or text_models for its newest run.

  --model NAME     layers-0, layers-1, ... or full; the run's last by default
  --member I       which seed of it, from 0
  --step N         after how many steps of training; the last of those kept by default
  --tokens N       new tokens; by default as many as fit into the model's context, at most 100
  --samples N      continuations, drawn in one batch
  --seed N         of the draws: the same command gives the same text
  --temperature T  divides the logits; 1 is the model itself
  --top-k K        only the K most probable tokens
  --top-p P        only the most probable tokens that make up P, in (0, 1]
  --greedy         always the most probable token

The prompt is read as the beginning of a document, after the boundary token; with "" the model
begins. A text ends where the document does, or where the context is full. A prompt that begins
with -- goes after a lone --.
"""
# New tokens when the command does not say how many.
MOST = 100
DEFAULTS = {
    "model": "",
    "member": "0",
    "step": None,
    "tokens": None,
    "samples": "1",
    "seed": "0",
    "temperature": "1",
    "top-k": None,
    "top-p": None,
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see --help")


@disk_in_one_line
def main(arguments: list[str] | None = None) -> int:
    """Print the texts; exit status 2 when the run, the model or an option is wrong."""
    typed = sys.argv[1:] if arguments is None else arguments
    if not typed or {"-h", "--help"} & set(typed):
        print(HELP, end="")
        return 0 if typed else 2
    try:
        _write(_options(typed))
    except ValueError as error:
        return refuse(error)
    return 0


def _options(typed: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(prog="generate", add_help=False, allow_abbrev=False)
    parser.add_argument("RUN")
    parser.add_argument("PROMPT")
    for name, default in DEFAULTS.items():
        parser.add_argument(f"--{name}", default=default)
    parser.add_argument("--greedy", action="store_true")
    known = [*(f"--{name}" for name in DEFAULTS), "--greedy"]
    for item in typed[: typed.index("--") if "--" in typed else None]:
        name = item.partition("=")[0]
        if name.startswith("--") and " " not in item and name not in known:
            near = nearest(name, known)
            raise ConfigError(f"{item} is no option{near}; options are {', '.join(known)}")
    options, extra = parser.parse_known_args(typed)
    if extra:
        raise ConfigError(f"{extra[0]!r} is one too many: give RUN and PROMPT, quoted as one word")
    for name in ("member", "samples", "seed", "step", "tokens", "top_k"):
        setattr(options, name, _number(options, name, int, "an integer"))
    for name in ("temperature", "top_p"):
        setattr(options, name, _number(options, name, float, "a number"))
    return options


def _number(options: argparse.Namespace, name: str, kind: Callable, words: str) -> Any:
    text = getattr(options, name)
    try:
        return None if text is None else kind(text)
    except ValueError:
        raise ConfigError(f"{name.replace('_', '-')}={text} must be {words}") from None


def _run(item: str) -> WholeRun:
    runs = named_runs(item)
    computed = [run for run in runs if run.name != ACCEPTED]
    return whole((computed or runs)[-1])


def _write(options: argparse.Namespace) -> None:
    run = _run(options.RUN)
    # Importing JAX takes a second, which a mistyped option or run should not cost.
    import jax

    from circuitax.kernel.keys import derive
    from circuitax.kernel.sampling import Sampling
    from circuitax.lab.compilation import keep_compiled_code
    from circuitax.lab.language_model import continuations, open_language_model, read_prompt, room

    if options.greedy and (options.temperature != 1 or options.top_k or options.top_p):
        raise ConfigError("greedy takes the most probable token: no temperature, top-k or top-p")
    if not 0 <= options.seed < 2**31:
        raise ConfigError(f"seed={options.seed} must be between 0 and {2**31 - 1}")
    sampling = Sampling(
        0.0 if options.greedy else options.temperature, options.top_k, options.top_p
    )
    if sampling.temperature == 0 and options.samples > 1:
        raise ConfigError(f"samples={options.samples} must be 1 when greedy: all would be the same")
    facts = provenance(run)
    keep_compiled_code(checkout() / ".cache")
    with jax.enable_x64(facts["dtype"] == "float64"):
        model = open_language_model(run, options.model, options.member, options.step)
        prompt = read_prompt(model, options.PROMPT)
        space = room(model, len(prompt))
        n_tokens = options.tokens
        if n_tokens is None:
            n_tokens = MOST if space is None else min(space, MOST)
        began = time.monotonic()
        key = derive(jax.random.key(options.seed), "generate")
        texts = continuations(
            model, prompt, n_tokens, key=key, sampling=sampling, samples=options.samples
        )
    print(
        f"{model.name} of {facts['experiment']} {facts['run']}, member {model.member}, "
        f"step {model.step}: {len(prompt)} tokens read, up to {n_tokens} written, "
        f"{time.monotonic() - began:.1f} s with compilation",
        file=sys.stderr,
    )
    for i, text in enumerate(texts):
        if len(texts) > 1:
            print(f"--- sample {i}")
        print(_printable(options.PROMPT + text))


def _printable(text: str) -> str:
    """The text without control characters and characters that the terminal cannot show."""
    shown = "".join(c if c in "\n\t" or c.isprintable() else "\ufffd" for c in text)
    encoding = sys.stdout.encoding or "utf-8"
    return shown.encode(encoding, "replace").decode(encoding)
