"""The table of skip-trigrams has frequent tokens only, and is right about those."""

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.circuits.weights.heads import token_ov, token_qk
from circuitax.circuits.weights.token_tables import head_tables
from circuitax.kernel.chain import materialise
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.transformer import init


def test_tables_are_the_largest_entries_among_some_tokens() -> None:
    spec = TransformerSpec(d_vocab=12, n_ctx=8, n_layers=1, n_heads=2, d_model=6)
    model = init(jax.random.key(3), spec)
    chosen = np.array([7, 2, 11, 4, 0])
    found = head_tables(model, jnp.asarray(chosen), 2, 3)
    for head in range(2):
        qk, ov = (np.asarray(materialise(c(model)))[0, head] for c in (token_qk, token_ov))
        scores, raises = qk.T[np.ix_(chosen, chosen)], ov[np.ix_(chosen, chosen)]
        weight = np.maximum(scores.max(axis=1), 0) * np.maximum(raises.max(axis=1), 0)
        sources = np.argsort(-weight)[:2]
        np.testing.assert_array_equal(found["sources"][head], chosen[sources])
        np.testing.assert_allclose(found["weight"][head], weight[sources], rtol=1e-5)
        for row, source in enumerate(sources):
            for ids, values, table in (
                ("destinations", "scores", scores),
                ("outs", "raises", raises),
            ):
                best = np.argsort(-table[source])[:3]
                np.testing.assert_array_equal(found[ids][head, row], chosen[best])
                np.testing.assert_allclose(found[values][head, row], table[source][best], atol=1e-6)
