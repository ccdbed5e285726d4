"""Post-LN: paths without MLPs by dense Kronecker matrices, training, and what is refused.

`test_dressed` has the paths through MLPs, every one written out.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import circuitax as cx
from circuitax.circuits.ledger.ledger import ledger
from circuitax.circuits.path_patching import Edges, patch_paths
from circuitax.circuits.paths import components, expansion, frozen
from circuitax.circuits.paths.orders import virtual_ov, virtual_sizes
from circuitax.circuits.score_terms import score_terms
from circuitax.circuits.weights.composition import composition_scores
from circuitax.circuits.weights.folding import fold_norms
from circuitax.circuits.weights.heads import token_ov, token_qk
from circuitax.kernel import kron
from circuitax.kernel.forward import batch_logits
from circuitax.kernel.generate import Sampling
from circuitax.kernel.interventions import freeze
from circuitax.kernel.norm import Norm
from circuitax.kernel.run import run


@pytest.fixture
def seen(make_run, x64):
    """A run of two post-LN layers without MLPs, with every bias, gain and offset."""
    model = make_run(2, biases=True, norm=Norm.layernorm).model
    model = model.replace(final_norm=None).with_options(post_ln=True, final_norm=False)
    return run(model, jnp.asarray([1, 4, 2, 6, 4]), outputs=True)


def test_paths_are_dense_kronecker_matrices_that_the_norms_multiply(seen):
    """Each path a product of ``kron(A, W^T)`` and ``kron(diag(1/s), ((I - 1/d) diag(g))^T)``.

    The patterns are the run's; divisors are computed here. The direct path passes both norms.
    """
    model, A = jax.tree.map(np.asarray, seen.model), np.asarray(seen.trace.patterns)
    heads, norms, (n, d) = model.blocks.attention, model.blocks.attention_norm, (5, 6)
    OV = heads.W_V @ heads.W_O
    centre, x = np.eye(d) - 1 / d, model.W_E[np.asarray(seen.tokens)]
    direct, found = np.eye(n * d), {(): np.eye(n * d)}
    for layer in range(2):
        added = x + heads.b_O[layer]
        for h in range(2):
            added = added + A[layer, h] @ (
                x @ OV[layer, h] + heads.b_V[layer, h] @ heads.W_O[layer, h]
            )
        size = np.sqrt(added.var(axis=1) + seen.model.spec.norm_eps)
        norm = np.kron(np.diag(1 / size), (centre * norms.gain[layer]).T)
        moved = {
            (*path, (layer, h)): norm @ np.kron(A[layer, h], OV[layer, h].T) @ before
            for path, before in found.items()
            for h in range(2)
        }
        found = {path: norm @ before for path, before in found.items()} | moved
        direct = norm @ direct
        x = (added @ centre) / size[:, None] * norms.gain[layer] + norms.offset[layer]
    np.testing.assert_allclose(x @ model.W_U + model.b_U, seen.logits, atol=1e-12)
    linear = frozen.with_source(frozen.frozen_model(seen), "tokens")
    streams = expansion.path_streams(linear)
    np.testing.assert_allclose(found[()], direct, atol=1e-14)
    assert set(found) == set(expansion.all_paths(2, 2))
    for path, dense in found.items():
        want = (dense @ np.asarray(linear.tokens).ravel()).reshape(n, d)
        np.testing.assert_allclose(streams[expansion.path_index(path, 2)], want, atol=1e-12)
        term = kron.act(expansion.path_term(linear, path), linear.tokens)
        np.testing.assert_allclose(term, want @ model.W_U, atol=1e-12)
        np.testing.assert_allclose(expansion.path_stream(linear, path), want, atol=1e-12)


def test_paths_and_biases_close_and_under_vmap(seen):
    found = jax.jit(expansion.expand)(seen)
    np.testing.assert_allclose(found.remainder, 0, atol=1e-12)
    texts = jnp.stack([seen.tokens, seen.tokens[::-1]])
    both = jax.vmap(lambda text: expansion.expand(run(seen.model, text)).terms)(texts)
    np.testing.assert_allclose(both[0], found.terms, atol=1e-12)
    whole = sum(
        expansion.path_streams(frozen.with_source(frozen.frozen_model(seen), source)).sum(axis=0)
        for source in ("tokens", "positions", "biases")
    )
    np.testing.assert_allclose(whole, seen.trace.streams[-1], atol=1e-12)


def test_paths_of_the_first_gpt_close(x64):
    """A tiny `openai-gpt` of transformers, MLPs dressed: 125 paths and the absolute sum."""
    family = Path(__file__).parents[2] / "fixtures" / "families" / "openai_gpt"
    reference = np.load(family / "reference.npz")
    model = cx.load_pretrained(family, dtype=jnp.float64)
    found = cx.expand(run(model, jnp.asarray(reference["tokens"][0]), outputs=True))
    assert found.terms.shape[0] == 125
    want = reference["logits"][0]
    np.testing.assert_allclose(found.terms.sum(axis=0), want, atol=1e-9 * np.abs(want).max())


def test_a_cache_and_frozen_values_give_the_same_logits(seen):
    again = run(seen.model, seen.tokens, freeze(seen.trace))
    np.testing.assert_allclose(again.logits, seen.logits, atol=1e-12)
    greedy = Sampling(temperature=0.0)
    text = cx.generate(seen.model, seen.tokens, 3, key=jax.random.key(0), sampling=greedy)
    for end in range(5, 8):
        assert int(run(seen.model, text[:end]).logits[-1].argmax()) == int(text[end])


def test_it_trains():
    """A two-layer post-LN model learns which token follows which, by plain gradient steps."""
    sizes = {"d_vocab": 5, "n_ctx": 6, "n_heads": 2, "d_model": 8, "d_mlp": 16}
    spec = cx.TransformerSpec(**sizes, norm=Norm.layernorm, post_ln=True, final_norm=False)
    model = cx.init(jax.random.key(0), spec)
    texts = (jnp.arange(5)[:, None] + jnp.arange(7)[None, :]) % 5

    def loss(model):
        log_p = jax.nn.log_softmax(batch_logits(model, texts[:, :-1]))
        return -jnp.take_along_axis(log_p, texts[:, 1:, None], axis=-1).mean()

    @jax.jit
    def trained(model):
        def step(model, _):
            return jax.tree.map(lambda w, g: w - 0.3 * g, model, jax.grad(loss)(model)), None

        return jax.lax.scan(step, model, length=150)[0]

    before, grads = jax.jit(jax.value_and_grad(loss))(model)
    grads = grads.named()
    for name in ("blocks.attention_norm.gain", "blocks.mlp_norm.offset"):
        assert (np.abs(grads[name]).max(axis=1) > 0).all()
    assert float(loss(trained(model))) < 0.1 < before


def test_analyses_that_add_up_the_stream_refuse_it(seen):
    """In one line that names the option, wherever parts of the stream would not sum to it."""
    model, tokens = seen.model, seen.tokens
    ones = jnp.ones((2, 2))
    direction = jnp.ones((5, 6))
    edges = Edges(ones, ones, ones, jnp.ones(()))
    for call in (
        lambda: components.components_of(seen),
        lambda: components.component_logits(seen),
        lambda: components.attribute(seen, tokens),
        lambda: components.attribute_sources(seen, direction),
        lambda: score_terms(seen, 1, 0),
        lambda: patch_paths(seen, direction, edges),
        lambda: ledger(seen, token=1, position=4, k=2),
        lambda: frozen.frozen_model(seen, mlps="sources"),
        lambda: fold_norms(model),
        lambda: composition_scores(model),
        lambda: token_qk(model),
        lambda: token_ov(model),
        lambda: virtual_ov(model, 0, 1),
    ):
        with pytest.raises(ValueError, match=r"^spec\.post_ln=True must be False for "):
            call()
    with pytest.raises(ValueError, match=r"^frozen\.norms must be None"):
        virtual_sizes(frozen.frozen_model(seen), 0, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "post_ln=True needs a norm, not norm=none"),
        ({"norm": Norm.layernorm, "parallel": True, "d_mlp": 4}, "parallel=True must be False"),
        ({"norm": Norm.rmsnorm, "post_norm": True}, "post_norm=True must be False"),
    ],
)
def test_options_that_exclude_it(options, message):
    with pytest.raises(ValueError, match=message):
        cx.TransformerSpec(post_ln=True, **options)
