"""What programs cost before they are run: ``python -m experiments.benchmarks.on_paper``.

XLA counts operations, bytes and memory of a program compiled for shapes alone. A model's layers are
alike, so that two compilations give any depth: ``cost(L) = cost(1) + (L - 1) (cost(2) - cost(1))``.
A machine needs at least ``max(operations / its peak, bytes / its bandwidth)`` seconds (Williams,
Waterman and Patterson 2009, the roofline). Writes ``results/on-paper.md``.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import circuitax as cx
from circuitax.config.catalogue import discover
from circuitax.config.plan import plan
from circuitax.data.synthetic import RepeatedSource
from circuitax.models.transformer import Transformer
from circuitax.training import ensemble
from circuitax.training.ensemble import Mapping, Plan, new_members
from circuitax.training.language import NextToken
from circuitax.training.optim import Optimizer, OptimSpec
from circuitax.training.toy import ToyHyper, ToyProblem
from experiments.benchmarks.harness import tables
from experiments.benchmarks.language_training import LARGE, MEMBERS, NARROW, WIDE
from experiments.benchmarks.language_training import training_problem as benchmark_problem

ROOT = Path(__file__).parents[2]
ADAM = OptimSpec(Optimizer.adam, weight_decay=0.0)
# NVIDIA's data sheet of the H200 SXM: float32 without tensor cores, HBM3e, NVLink one way.
H200, LINK, H200_BYTES = (67e12, 4.8e12), 450e9, 141e9
# Microseconds a token in float32, as docs/cluster.md has them; nobody measured the third there.
SEEN = {LARGE: 0.15, NARROW: 0.025}


class Cost(NamedTuple):
    """Operations, bytes to and from memory, and bytes held at the most."""

    flops: float
    moved: float
    peak: float

    def seconds(self, speeds: tuple[float, float]) -> float:
        """The roofline for operations and bytes a second."""
        return max(self.flops / speeds[0], self.moved / speeds[1])


class Row(NamedTuple):
    """A program, its tokens (or samples) a step, and the bytes that eight devices must add up."""

    name: str
    cost: Cost
    tokens: int
    summed: float


def cost(function: Callable[..., Any], *shapes: Any, donated: tuple[int, ...] = ()) -> Cost:
    """What XLA says of a program for arguments of these shapes; it is not run."""
    program = jax.jit(function, donate_argnums=donated).lower(*shapes).compile()
    found: Any = program.cost_analysis()
    held: Any = program.memory_analysis()
    at_end = held.output_size_in_bytes - held.alias_size_in_bytes
    peak = held.argument_size_in_bytes + held.temp_size_in_bytes + at_end
    return Cost(found["flops"], found["bytes accessed"], float(peak))


def step_cost(problem: Any, hyper: Any, common: int = 1) -> Cost:
    """One training step of an ensemble, all members at once."""
    how = Plan(problem, ADAM, chunk=1, mapping=Mapping.vmap, common=common, mesh=None)
    members = new_members(jax.random.key(0), 1e-3, hyper, common=common)
    state = jax.eval_shape(partial(ensemble.init, how, members))
    return cost(ensemble.advance(how, members), state, donated=(0,))


def at_depth(of_depth: Callable[[int], Cost], n_layers: int) -> Cost:
    """The cost at any depth, from those of one and two layers."""
    one, two = of_depth(1), of_depth(2)
    return Cost(*(a + (n_layers - 1) * (b - a) for a, b in zip(one, two, strict=True)))


def model_rows(name: str, spec: cx.TransformerSpec, batch: int, n_members: int = 1) -> list[Row]:
    """A forward pass of one text, and a step of training on a batch of them."""
    n_ctx, depth = spec.n_ctx or 0, spec.n_layers

    def model(n_layers: int) -> Any:
        one = spec.replace(n_layers=n_layers)
        return jax.eval_shape(lambda: cx.init(jax.random.key(0), one))

    def forward(n_layers: int) -> Cost:
        text = jax.ShapeDtypeStruct((n_ctx,), int)
        return cost(lambda m, text: cx.forward(m, text)[0], model(n_layers), text)

    def training(n_layers: int) -> Cost:
        texts = RepeatedSource(batch, n_ctx, spec.d_vocab, min_period=2, max_period=n_ctx // 2)
        problem = NextToken(Transformer(spec.replace(n_layers=n_layers)), texts)
        return step_cost(problem, jnp.zeros(n_members))

    sizes = [sum(x.size for x in jax.tree.leaves(model(n))) for n in (1, 2)]
    weights = 4.0 * n_members * (sizes[0] + (depth - 1) * (sizes[1] - sizes[0]))
    tokens = batch * n_ctx * n_members
    share = "" if n_members == 1 else f"{n_members} models, "
    return [
        Row(f"{name}: forward pass, {n_ctx:,} tokens", at_depth(forward, depth), n_ctx, 0.0),
        # Members need no sums over devices.
        Row(
            f"{name}: training step, {share}{batch} × {n_ctx:,} tokens",
            at_depth(training, depth),
            tokens,
            weights if n_members == 1 else 0.0,
        ),
    ]


def rows() -> list[Row]:
    """The paper's scale of two experiments, and models of 124 million to 7 billion parameters."""
    entries = discover()
    toy, text = (
        plan([f"experiment={name}", "scale=paper"], entries)[1][0].spec
        for name in ("toy_intro", "text_models")
    )
    cells = len(toy.task.importance_base) * len(toy.task.sparsity)
    n_members, n = toy.seeds * cells, toy.model.n_features
    hyper = ToyHyper(jnp.full((n_members, 1), 0.1), jnp.ones((n_members, n)))
    problem = ToyProblem(toy.model, toy.task.batch_size, toy.convention)
    samples = toy.task.batch_size * n_members
    name = f"toy_intro, scale=paper: training step, {n_members:,} models"
    found = [Row(name, step_cost(problem, hyper, cells), samples, 0.0)]
    found += model_rows("text_models, scale=paper", text.model, text.batch, text.seeds)
    gpt2 = cx.TransformerSpec(d_vocab=50_257, n_ctx=1024, n_layers=12, n_heads=12, d_model=768)
    gpt2 = gpt2.replace(norm="layernorm", positions="learned", biases=True)
    for name, depth, heads, width in (
        ("GPT-2 small", 12, 12, 768),
        ("GPT-2 medium", 24, 16, 1024),
        ("GPT-2 XL", 48, 25, 1600),
    ):
        size = {"n_layers": depth, "n_heads": heads, "d_model": width, "d_mlp": 4 * width}
        found += model_rows(name, gpt2.replace(**size), batch=8)
    llama = cx.TransformerSpec(d_vocab=32_000, n_ctx=2048, n_layers=32, n_heads=32, d_model=4096)
    llama = llama.replace(norm="rmsnorm", positions="rotary", d_mlp=11_008, gated=True)
    return found + model_rows("7 billion (Llama 2)", llama, batch=1)


class Point(NamedTuple):
    """Microseconds a token of training, as the roofline has it and as it was measured."""

    machine: str
    name: str
    paper: float
    measured: float


def points() -> tuple[list[Point], dict[str, Any]]:
    """The three trainings of the benchmark table, on its CPU and on an H200; and that CPU."""
    table = tables(ROOT / "results")[0]
    cpu = table["machine"]["matmul"], table["machine"]["memory"]
    measured = [row for row in table["rows"] if row["module"] == "language_training"]
    found = []
    for size, n_members in ((LARGE, 1), (NARROW, MEMBERS), (WIDE, MEMBERS)):
        of_step = step_cost(benchmark_problem(size), jnp.zeros(n_members))
        tokens = n_members * 32 * size.context
        mine = [row for row in measured if f"d_model {size.d_model}," in row["name"]]
        name = f"width {size.d_model}, {n_members} model{'s' * (n_members > 1)}"
        ours = min(row["ours"] for row in mine)
        found.append(Point("2 cores", name, 1e6 * of_step.seconds(cpu) / tokens, ours))
        if size in SEEN:
            paper = 1e6 * of_step.seconds(H200) / tokens
            found.append(Point("H200", name, paper, SEEN[size]))
    return found, table["machine"]


HEAD = """\
# On paper

Written by `python -m experiments.benchmarks.on_paper`, which runs no program: XLA counts
operations and bytes of what it compiled for shapes alone, in float32 and on a CPU. The seconds
are the roofline, the least that operations or bytes take at the speeds of a data sheet (an
H200: 67 TFLOP/s without tensor cores, 4.8 TB/s; 8 of them share members or texts evenly and
add up gradients at 450 GB/s). TF32 has 7 times the operations. On a GPU other operations are
fused, so that fewer or more bytes move. A forward pass of one text is not split.

| program | operations | bytes | held at most | H200 | 8 H200 | binds |
|---|---|---|---|---|---|---|
"""
BELOW = """
An H200 holds 141 GB. What holds more does not fit: it needs its weights spread over devices, or
layers computed again in the backward pass, and neither is here.

## Against what was measured

Microseconds a token and model of three trainings of the [benchmark table](benchmarks.md). The
speeds of the 2 cores are those that table measured ({matmul:.0f} GFLOP/s, {memory:.0f} GB/s), the
H200's are the data sheet's, its measured times those of [Run on a cluster](../docs/cluster.md).

| machine | training | on paper | measured | measured over paper |
|---|---|---|---|---|
"""


def page(found: list[Row], seen: list[Point], machine: dict[str, Any]) -> str:
    """The two tables in Markdown."""
    lines = []
    for row in found:
        one = row.cost.seconds(H200)
        alone = row.summed == 0 and "forward" in row.name
        eight = one if alone else one / 8 + 2 * 7 / 8 * row.summed / LINK
        binds = "operations" if one == row.cost.flops / H200[0] else "bytes"
        more = "" if row.cost.peak <= H200_BYTES else ", does not fit"
        lines.append(
            f"| {row.name} | {row.cost.flops:.2e} | {row.cost.moved:.2e} | "
            f"{row.cost.peak / 1e9:.3g} GB{more} | {1e3 * one:.3g} ms | "
            f"{'-' if alone else f'{1e3 * eight:.3g} ms'} | {binds} |"
        )
    speeds = {name: machine[name] / 1e9 for name in ("matmul", "memory")}
    below = [
        f"| {p.machine} | {p.name} | {p.paper:.2g} µs | {p.measured:.3g} µs | "
        f"{p.measured / p.paper:.2f} |"
        for p in seen
    ]
    return "\n".join([HEAD + "\n".join(lines), BELOW.format(**speeds) + "\n".join(below), ""])


def main() -> None:
    """Write the page."""
    seen, machine = points()
    text = page(rows(), seen, machine)
    (ROOT / "results/on-paper.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
