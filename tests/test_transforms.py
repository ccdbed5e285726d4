"""Every pure function of the face: one program, under vmap over an ensemble, and in float32.

Each is called on two models and two texts. The second call compiles nothing; ``jit`` of ``vmap``
over both gives what the two calls gave; no array is of another precision than the weights.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import circuitax as cx
from circuitax.projection.maps import MapFamily

pytestmark = pytest.mark.usefixtures("unchecked_types")

SPEC = cx.TransformerSpec(d_vocab=11, n_ctx=6, n_layers=2, n_heads=2, d_model=8, d_mlp=6).replace(
    norm="layernorm", positions="learned"
)
POINTS = jax.random.normal(jax.random.key(8), (2, 20, 8))
GAUSSIAN = cx.MapSpec(MapFamily.gaussian, 8, 4)
TEXT = jnp.array([1, 2, 3, 1, 2, 3])
Call = Callable[[Any, Any, Any], Any]


def last_logit(logits: jax.Array) -> jax.Array:
    return logits[-1, 3]


def head(run: cx.Run) -> jax.Array:
    return run.trace.head_outputs[0, 1]


# Of a model, a run of it, and a run of the same model on another text.
CALLS: dict[str, Call] = {
    "ablate_head": lambda m, r, o: cx.ablate_head(r, (0, 1)),
    "ablation_effects": lambda m, r, o: cx.ablation_effects(r, last_logit),
    "component_logits": lambda m, r, o: cx.component_logits(r),
    "composition": lambda m, r, o: cx.composition(m),
    "composition_scores": lambda m, r, o: cx.composition_scores(m),
    "contrast": lambda m, r, o: cx.contrast(r, o, token=3, minus=5),
    "dimensionality": lambda m, r, o: cx.dimensionality(m.W_E.T),
    "expand": lambda m, r, o: cx.expand(r),
    "fold_norms": lambda m, r, o: cx.fold_norms(m),
    "forward": lambda m, r, o: cx.forward(m, TEXT, outputs=True),
    "freeze": lambda m, r, o: cx.freeze(r.trace),
    "generate": lambda m, r, o: cx.generate(m, TEXT[:3], 2, key=jax.random.key(0)),
    "induction_scores": lambda m, r, o: cx.induction_scores(m, TEXT[None]),
    "patch_activation": lambda m, r, o: cx.patch_activation(r, "q", (1, 0), o.q[1, 0]),
    "patch_effects": lambda m, r, o: cx.patch_effects(r, o),
    "path_effects": lambda m, r, o: cx.path_effects(r, o, last_logit, reads="key"),
    "patch_head": lambda m, r, o: cx.patch_head(r, (0, 1), head(o)),
    "patch_path": lambda m, r, o: cx.patch_path(r, (0, 1), (1, 1), head(o), reads="key"),
    "patch_pattern": lambda m, r, o: cx.patch_pattern(r, (1, 0), o.trace.patterns[1, 1]),
    "patch_stream": lambda m, r, o: cx.patch_stream(r, 1, o.trace.streams[1], positions=[2]),
    "run": lambda m, r, o: cx.run(m, TEXT),
    "term_losses": lambda m, r, o: cx.term_losses(r),
    "token_losses": lambda m, r, o: cx.token_losses(r),
    "token_ov": lambda m, r, o: cx.token_ov(m),
    "token_qk": lambda m, r, o: cx.token_qk(m),
}
# They work on the host, or on arrays of their own; these compile nothing the second time either.
OTHERS: dict[str, Callable[[int], Any]] = {
    "distortion": lambda i: cx.distortion(POINTS[i], POINTS[i, :, :4], [[-0.1, 0.1]]),
    "expected_loss": lambda i: cx.expected_loss(
        cx.TiedWeights(POINTS[i, :2, :4], jnp.zeros(4)), jnp.full(4, 0.1 + 0.1 * i), jnp.ones(4)
    ),
    "explain": lambda i: cx.explain(pair(i)[1], token=3, n_nodes=4),
    "find_optimum": lambda i: cx.find_optimum(
        jax.random.key(i), jnp.full((1, 4), 0.3), jnp.ones((1, 4)), n_hidden=2, n_restarts=3
    ),
    "init": lambda i: cx.init(jax.random.key(i), SPEC),
    "ledger": lambda i: cx.ledger(pair(i)[1], token=i, minus=5, by_position=True),
    "project": lambda i: cx.project(jax.random.key(i), POINTS[i], GAUSSIAN),
    "repeated_tokens": lambda i: cx.repeated_tokens(jax.random.key(i), 2, 8, 11),
    "stack": lambda i: cx.stack([pair(i)[0], pair(1 - i)[0]]),
}
NOT_TRACED = {
    *("explanation_page", "jl_dimension", "load_pretrained", "load_tokenizer", "save_pretrained"),
    "train",  # tests/kit
}


@contextmanager
def compilations() -> Iterator[list[str]]:
    """The programs that JAX compiles, or reads from its cache on disk, within the block."""
    found: list[str] = []

    def listen(event: str, duration: float, **about: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            found.append(str(about.get("fun_name", "?")))

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def pair(i: int) -> tuple[cx.Model, cx.Run, cx.Run]:
    model = cx.init(jax.random.key(i), SPEC)
    texts = jax.random.randint(jax.random.key(10 + i), (2, 6), 0, SPEC.d_vocab)
    return model, cx.run(model, texts[0], outputs=True), cx.run(model, texts[1], outputs=True)


def test_every_public_function_has_its_call() -> None:
    others = {name for name in dir(cx) if isinstance(getattr(cx, name), type | ModuleType)}
    assert set(CALLS) | set(OTHERS) | NOT_TRACED | others == set(dir(cx))


@pytest.mark.parametrize("name", CALLS)
def test_a_function_is_one_program_and_maps_over_an_ensemble(name: str) -> None:
    call, pairs = CALLS[name], [pair(0), pair(1)]
    first = jax.block_until_ready(call(*pairs[0]))
    with compilations() as found:
        second = jax.block_until_ready(call(*pairs[1]))
    assert found == []
    both = jax.tree.map(lambda x, y: jnp.stack([x, y]), *pairs)
    mapped = jax.tree.leaves(jax.jit(jax.vmap(call))(*both))
    for i, alone in enumerate((first, second)):
        for got, want in zip(mapped, jax.tree.leaves(alone), strict=True):
            assert jnp.asarray(want).dtype not in (jnp.float64, jnp.bfloat16)
            np.testing.assert_allclose(got[i], want, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", OTHERS)
def test_a_second_call_compiles_nothing(name: str) -> None:
    jax.block_until_ready(OTHERS[name](0))
    pair(1)
    with compilations() as found:
        jax.block_until_ready(OTHERS[name](1))
    assert found == []


def test_a_closure_made_anew_is_counted() -> None:
    for _ in range(2):
        with compilations() as found:
            jax.lax.map(lambda x: x + 1, jnp.arange(3))
        assert found
