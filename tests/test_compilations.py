"""A second call of a public function, outside of jit, compiles nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import circuitax as cx
from circuitax.projection.maps import MapFamily, MapSpec
from circuitax.projection.measures import Measure
from circuitax.training.sharding import device_mesh, place

SPEC = cx.TransformerSpec(d_vocab=11, n_ctx=8, n_layers=2, n_heads=2, d_model=8, d_mlp=6).replace(
    norm="layernorm", positions="learned"
)
N_CTX = 6
# They read files or trace nothing; packages are no functions.
NOT_TRACED = {
    "explanation_page",
    "jl_dimension",
    "load_pretrained",
    "load_tokenizer",
    "save_pretrained",
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


def model(seed: int) -> cx.Model:
    return cx.init(jax.random.key(seed), SPEC)


def ids(seed: int) -> jax.Array:
    return jax.random.randint(jax.random.key(seed), (N_CTX,), 0, SPEC.d_vocab)


def run(seed: int) -> cx.Run:
    return cx.run(model(seed), ids(seed), outputs=True)


def network(seed: int) -> cx.TiedWeights:
    return cx.TiedWeights(jax.random.normal(jax.random.key(seed), (2, 4)), jnp.zeros(4))


def cloud(seed: int) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), (20, 8))


@dataclass(frozen=True)
class Halved:
    """A problem of one number: half of its square."""

    def init(self, key: jax.Array, hyper: Any) -> jax.Array:
        return jax.random.normal(key, ())

    def batch(self, key: jax.Array, step: jax.Array) -> tuple[()]:
        return ()

    def loss(self, params: jax.Array, batch: tuple[()], hyper: Any) -> jax.Array:
        return params**2 / 2


def last_logit(logits: jax.Array) -> jax.Array:
    return logits[-1, 3]


GAUSSIAN = MapSpec(MapFamily.gaussian, 8, 4)
TEXTS = jnp.tile(jnp.array([[1, 2, 3], [4, 5, 6]]), (1, 2))
CALLS: dict[str, list[Callable[[int], Any]]] = {
    "ablate_head": [lambda seed: cx.ablate_head(run(seed), (seed, 1))],
    "ablate_each": [
        lambda seed: cx.ablate_each(run(seed)),
        lambda seed: cx.ablate_each(
            run(seed), last_logit, donor=run(seed + 1), preserve_patterns=True
        ),
    ],
    "distortion": [
        lambda seed: cx.distortion(cloud(seed), cloud(seed)[:, :4], jnp.array([[-0.1, 0.1]])),
        lambda seed: cx.distortion(
            cloud(seed), cloud(seed)[:, :4], jnp.zeros((0, 2)), measure=Measure.angle
        ),
    ],
    "component_logits": [lambda seed: cx.component_logits(run(seed))],
    "composition": [lambda seed: cx.composition(cx.fold_norms(model(seed)))],
    "composition_scores": [lambda seed: cx.composition_scores(model(seed))],
    "dimensionality": [lambda seed: cx.dimensionality(network(seed).W)],
    "expand": [lambda seed: cx.expand(run(seed))],
    "expected_loss": [
        lambda seed: cx.expected_loss(network(seed), jnp.full(4, 0.1 + 0.1 * seed), jnp.ones(4))
    ],
    "explain": [lambda seed: cx.explain(run(seed), token=3)],
    "find_optimum": [
        lambda seed: cx.find_optimum(
            jax.random.key(seed), jnp.full((1, 4), 0.3), jnp.ones((1, 4)), n_hidden=2, n_restarts=3
        )
    ],
    "fold_norms": [lambda seed: cx.fold_norms(model(seed))],
    "forward": [
        lambda seed: cx.forward(model(seed), ids(seed)),
        lambda seed: cx.forward(model(seed), [seed, 2, 3], outputs=True),
        lambda seed: jax.vmap(lambda text: cx.forward(model(seed), text)[0])(TEXTS),
    ],
    "freeze": [lambda seed: cx.freeze(run(seed).trace)],
    "generate": [lambda seed: cx.generate(model(seed), ids(seed), 2, key=jax.random.key(seed))],
    "induction_scores": [lambda seed: cx.induction_scores(model(seed), TEXTS + seed)],
    "init": [model],
    "ledger": [
        lambda seed: cx.ledger(run(seed), token=3),
        lambda seed: cx.ledger(run(seed), token=seed, minus=5, by_position=True),
    ],
    "patch": [
        lambda seed: cx.patch(run(seed), run(seed + 1)),
        lambda seed: cx.patch(run(seed), run(seed + 1), last_logit),
    ],
    "patch_head": [
        lambda seed: cx.patch_head(run(seed), (1, seed), run(seed + 1).trace.head_outputs[1, 0])
    ],
    "patch_path": [
        lambda seed: cx.patch_path(
            run(seed), (0, seed), (1, 1), run(seed + 1).trace.head_outputs[0, 0], reads="key"
        )
    ],
    "patch_pattern": [
        lambda seed: cx.patch_pattern(run(seed), (seed, 1), jnp.full((N_CTX, N_CTX), 0.1))
    ],
    "patch_stream": [
        lambda seed: cx.patch_stream(run(seed), seed, run(seed + 1).trace.streams[1], positions=[2])
    ],
    "project": [
        lambda seed: cx.project(jax.random.key(seed), cloud(seed), GAUSSIAN),
        lambda seed: cx.project(jax.random.key(seed), cloud(seed), GAUSSIAN, block=3),
    ],
    "repeated_tokens": [lambda seed: cx.repeated_tokens(jax.random.key(seed), 2, 8, 11)],
    "stack": [lambda seed: cx.stack([model(seed), model(seed + 1)])],
    "run": [run, lambda seed: cx.run(model(seed), TEXTS + seed)],
    "term_losses": [lambda seed: cx.term_losses(run(seed))],
    "token_losses": [lambda seed: cx.token_losses(run(seed)), lambda seed: run(seed).loss],
    "token_ov": [lambda seed: cx.token_ov(model(seed))],
    "token_qk": [lambda seed: cx.token_qk(model(seed))],
    "train": [
        lambda seed: cx.train(Halved(), 2, 4, key=jax.random.key(seed), probe=jnp.sum).models
    ],
}


def test_every_public_function_has_its_calls() -> None:
    others = {name for name in dir(cx) if isinstance(getattr(cx, name), type | ModuleType)}
    assert set(CALLS) | NOT_TRACED | others == set(dir(cx))


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(call, id=f"{name}-{i}")
        for name, calls in CALLS.items()
        for i, call in enumerate(calls)
    ],
)
def test_a_second_call_compiles_nothing(call: Callable[[int], Any]) -> None:
    jax.block_until_ready(call(0))
    with compilations() as found:
        jax.block_until_ready(call(1))
    assert found == []


def test_arrays_go_to_several_devices_without_a_program() -> None:
    mesh = device_mesh(4)
    tree = {"a": jnp.arange(24.0).reshape(8, 3), "b": jnp.arange(8)}
    with compilations() as found:
        split = jax.block_until_ready(place(tree, mesh, 8))
        whole = jax.block_until_ready(place(tree, mesh, 7))
    assert found == []
    part = split["a"].addressable_shards[1].data
    np.testing.assert_array_equal(part, [[6, 7, 8], [9, 10, 11]])
    assert whole["b"].sharding.is_fully_replicated and len(whole["b"].devices()) == 4


def test_a_closure_made_anew_is_counted() -> None:
    for _ in range(2):
        with compilations() as found:
            jax.lax.map(lambda x: x + 1, jnp.arange(3))
        assert found
