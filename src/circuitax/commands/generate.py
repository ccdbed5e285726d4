"""Continue a text with a trained model: ``python -m experiments.generate RUN "import os"``."""

import sys
import time
from typing import Any

from circuitax.commands.cli import YES_NO, Command, Option, UsageError, printable
from circuitax.config.catalogue import checkout
from circuitax.lab.runs import newest_run, provenance

COMMAND = Command(
    "generate",
    """\
Prints PROMPT with what a model writes after it. RUN is the folder of a finished run of text_models,
text_models/RUN below results/, or text_models for its newest run. The prompt is read as the
beginning of a document, after the boundary token; with "" the model begins. A text ends where the
document does, or where the context is full. Options may be written --tokens 20 too; a prompt that
begins with -- goes after a lone --.
""",
    (
        "RUN",
        "PROMPT",
    ),
    (
        Option("model", "NAME", "layers-0, layers-1, ... or full; the last of the run by default"),
        Option("member", "N", "seed of the model, counted from 0", 0, kind=int),
        Option("step", "N", "step of training; the last kept one by default", None, kind=int),
        Option(
            "tokens",
            "N",
            "number of new tokens; by default as many as fit into the context, at most 100",
            None,
            kind=int,
        ),
        Option("samples", "N", "number of continuations, drawn in one batch", 1, kind=int),
        Option("seed", "N", "seed of the draws: the same seed gives the same text", 0, kind=int),
        Option("temperature", "T", "divisor of the logits; 1 is the model itself", 1.0, kind=float),
        Option("top-k", "N", "draw from the N most probable tokens only", None, kind=int),
        Option(
            "top-p",
            "P",
            "draw from the most probable tokens that make up P only, in (0, 1]",
            None,
            kind=float,
        ),
        Option("greedy", "", "take the most probable token each time", "no", YES_NO),
    ),
)
# New tokens when the command does not say how many.
MOST = 100


@COMMAND.entry
def main(options: dict[str, Any]) -> int:
    """Print the texts; exit status 2 when the run, the model or an option is wrong."""
    _write(options)
    return 0


def _write(options: dict[str, Any]) -> None:
    run, greedy = newest_run(options["RUN"]), options["greedy"] == "yes"
    # Importing JAX takes a second, which a mistyped option or run should not cost.
    import jax

    from circuitax.cores import keep_compiled_code, multiply_in_float32
    from circuitax.kernel.generate import Sampling
    from circuitax.kernel.keys import derive
    from circuitax.kit.kept_models import (
        continuations,
        open_language_model,
        read_prompt,
        tokens_left,
    )

    if greedy and (options["temperature"] != 1 or options["top_k"] or options["top_p"]):
        raise UsageError("greedy takes the most probable token: no temperature, top-k or top-p")
    if not 0 <= options["seed"] < 2**31:
        raise UsageError(f"seed={options['seed']} must be between 0 and {2**31 - 1}")
    sampling = Sampling(
        0.0 if greedy else options["temperature"], options["top_k"], options["top_p"]
    )
    if sampling.temperature == 0 and options["samples"] > 1:
        raise UsageError(
            f"samples={options['samples']} must be 1 when greedy: all would be the same"
        )
    facts = provenance(run)
    keep_compiled_code(checkout() / ".cache")
    multiply_in_float32()
    with jax.enable_x64(facts["dtype"] == "float64"):
        model = open_language_model(run, options["model"], options["member"], options["step"])
        prompt = read_prompt(model, options["PROMPT"])
        space = tokens_left(model, len(prompt))
        n_tokens = options["tokens"]
        if n_tokens is None:
            n_tokens = MOST if space is None else min(space, MOST)
        began = time.monotonic()
        key = derive(jax.random.key(options["seed"]), "generate")
        texts = continuations(
            model, prompt, n_tokens, key=key, sampling=sampling, samples=options["samples"]
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
        print(printable(options["PROMPT"] + text))
