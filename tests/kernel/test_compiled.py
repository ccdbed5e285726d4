"""Options of short programs, and the bits of initial weights that they must keep."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel import compiled
from circuitax.kernel.compiled import SHORT, options_for
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.autoencoder import Autoencoder, Sparsity
from circuitax.models.toy import ToySpec, init_weights
from circuitax.models.transformer import Transformer

LEVEL = ("xla_backend_optimization_level", 1)
OLDER = ("xla_cpu_use_fusion_emitters", False)
FULL = {"xla_backend_optimization_level": 3, "xla_cpu_use_fusion_emitters": True}


def test_short_programs_are_compiled_with_less_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XLA_FLAGS")
    monkeypatch.setattr(compiled, "has_older_emitters", lambda: True)
    assert options_for(1) == options_for(SHORT) == (LEVEL, OLDER)
    assert options_for(SHORT + 1) == ()
    monkeypatch.setattr(compiled, "has_older_emitters", lambda: False)
    assert options_for(1) == (LEVEL,)


def test_flags_of_the_user_go_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "has_older_emitters", lambda: True)
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=2")
    assert options_for(1) == (OLDER,)


def test_other_backends_and_programs_inside_others_get_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("XLA_FLAGS")
    found: list[Any] = []
    jax.jit(lambda x: found.append(options_for(1)) or x)(1.0)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert found == [()] and options_for(1) == ()


def toy(key: jax.Array) -> Any:
    return init_weights(ToySpec(40, 10), key)


def autoencoder(key: jax.Array) -> Any:
    return Autoencoder(Sparsity.relu, 12, 8).init(key, jnp.zeros((1, 8)), jnp.ones(()))


def transformer(key: jax.Array) -> Any:
    spec = TransformerSpec(d_vocab=64, n_ctx=16, n_layers=2, n_heads=2, d_model=32, d_mlp=48)
    return Transformer(spec).init(key, jnp.zeros((1, 16), jnp.int32))


@pytest.mark.parametrize("draw", [toy, autoencoder, transformer])
def test_initial_weights_keep_their_bits(monkeypatch: pytest.MonkeyPatch, draw: Any) -> None:
    monkeypatch.delenv("XLA_FLAGS")
    keys = jax.random.split(jax.random.key(7), 3)
    program = jax.jit(jax.vmap(draw)).lower(keys)
    full, quick = (program.compile(options)(keys) for options in (FULL, dict(options_for(1))))
    assert any(np.std(leaf) > 0.01 for leaf in jax.tree.leaves(full))
    for x, y in zip(jax.tree.leaves(full), jax.tree.leaves(quick), strict=True):
        np.testing.assert_array_equal(x, y)
