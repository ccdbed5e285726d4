"""Kronecker statements of the sources, in columns, against the terms here."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel import kron
from circuitax.kernel.chain import chain_of, materialise
from circuitax.kernel.kron import Kron

N, D, K, VOCAB = 3, 4, 2, 5
NEAR = {"rtol": 1e-12, "atol": 1e-12}


def vec(X: np.ndarray) -> np.ndarray:
    return X.ravel(order="F")


def definition(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """S0 Def. 13 and S3 Def. 2, entry by entry: block (i, j) is ``a_ij B``."""
    (m, n), (p, q) = A.shape, B.shape
    out = np.empty((m * p, n * q))
    for i in range(m):
        for j in range(n):
            out[i * p : (i + 1) * p, j * q : (j + 1) * q] = A[i, j] * B
    return out


def term(P: np.ndarray, Q: np.ndarray) -> Kron:
    """The sources' ``P ⊗ Q`` on columns as our term on rows."""
    return Kron(jnp.asarray(P), jnp.asarray(Q.T))


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def test_S0_definition_13_and_S3_definition_2_block_matrix(
    rng: np.random.Generator, x64: None
) -> None:
    A, B = rng.normal(size=(2, 3)), rng.normal(size=(4, 5))
    np.testing.assert_allclose(kron.materialise(term(A, B)), definition(A, B), **NEAR)


def test_S0_example_15_and_S3_example_4_printed_matrix() -> None:
    A, B = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.0, 5.0], [6.0, 7.0]])
    printed = [[0, 5, 0, 10], [6, 7, 12, 14], [0, 15, 0, 20], [18, 21, 24, 28]]
    np.testing.assert_array_equal(kron.materialise(term(A, B)), printed)


def test_E14_S0_remark_14_vec_stacks_columns_and_ravel_of_rows_is_that_vec(
    rng: np.random.Generator, x64: None
) -> None:
    """Corrected: vec stacks columns. Read with NumPy's row-major ravel of X, it fails."""
    P, Q, X = rng.normal(size=(N, N)), rng.normal(size=(D, D)), rng.normal(size=(D, N))
    image = Q @ X @ P.T
    np.testing.assert_allclose(definition(P, Q) @ vec(X), vec(image), **NEAR)
    assert not np.allclose(definition(P, Q) @ X.ravel(), image.ravel())
    x = jnp.asarray(X.T)
    np.testing.assert_array_equal(x.ravel(), vec(X))
    ours = kron.act(term(P, Q), x)
    np.testing.assert_allclose(ours, image.T, **NEAR)
    np.testing.assert_allclose(jnp.kron(P, Q) @ x.ravel(), ours.ravel(), **NEAR)


def test_S0_remark_14_basis_matrices(rng: np.random.Generator, x64: None) -> None:
    """``(P ⊗ Q) E_ij = Q E_ij Pᵀ`` on every matrix unit, which fixes the operator."""
    P, Q = rng.normal(size=(N, N)), rng.normal(size=(D, D))
    for i in range(D):
        for j in range(N):
            E = np.zeros((D, N))
            E[i, j] = 1.0
            ours = kron.act(term(P, Q), jnp.asarray(E.T))
            np.testing.assert_allclose(ours.T, np.outer(Q[:, i], P[:, j]), **NEAR)


def test_E28_S3_remark_3_the_convention_is_that_of_property_6_not_5(
    rng: np.random.Generator, x64: None
) -> None:
    """The mixed product holds for either vec, so it cannot fix one; Property 6 does.

    Printed in S0 Rmk. 14: "the mixed-product identity proved in Lemma 17", which is Lemma 16.
    """
    M, X, R = rng.normal(size=(D, D)), rng.normal(size=(D, N)), rng.normal(size=(N, N))
    P, Q, C, F = R, M, rng.normal(size=(N, N)), rng.normal(size=(D, D))
    for order in (lambda a, b: definition(a, b), lambda a, b: definition(b, a)):
        np.testing.assert_allclose(order(P, Q) @ order(C, F), order(P @ C, Q @ F), **NEAR)
    np.testing.assert_allclose(definition(R.T, M) @ vec(X), vec(M @ X @ R), **NEAR)
    assert not np.allclose(definition(M, R.T) @ vec(X), vec(M @ X @ R))


def test_S0_lemma_16_and_S3_property_5_mixed_product(rng: np.random.Generator, x64: None) -> None:
    """The printed shapes, A [m,n], B [p,q], C [n,r], D [q,s], all different."""
    A, B = rng.normal(size=(2, 3)), rng.normal(size=(5, 4))
    C, F = rng.normal(size=(3, 6)), rng.normal(size=(4, 7))
    np.testing.assert_allclose(
        definition(A, B) @ definition(C, F), definition(A @ C, B @ F), **NEAR
    )
    ours = kron.compose(term(A, B), term(C, F))
    np.testing.assert_allclose(kron.materialise(ours), definition(A @ C, B @ F), **NEAR)
    # in row form the feature factors stand in the order in which they act
    np.testing.assert_allclose(ours.A, A @ C, **NEAR)
    np.testing.assert_allclose(ours.W, F.T @ B.T, **NEAR)


def test_S0_lemma_17_and_S3_property_6_standard_identity(
    rng: np.random.Generator, x64: None
) -> None:
    M, X, R = rng.normal(size=(5, D)), rng.normal(size=(D, N)), rng.normal(size=(N, 2))
    right_then_left = kron.compose(kron.process(jnp.asarray(M.T)), kron.move(jnp.asarray(R.T)))
    for operator in (right_then_left, term(R.T, M)):
        np.testing.assert_allclose(kron.act(operator, jnp.asarray(X.T)).T, M @ X @ R, **NEAR)


def test_S0_claim_18_and_S3_claim_7_a_head_is_one_term(rng: np.random.Generator, x64: None) -> None:
    X, A = rng.normal(size=(D, N)), softmax(rng.normal(size=(N, N)))
    W_V, W_O = rng.normal(size=(K, D)), rng.normal(size=(D, K))
    V = W_V @ X
    R = V @ A.T
    H = W_O @ R
    steps = kron.compose(
        kron.process(jnp.asarray(W_O.T)),
        kron.compose(kron.move(jnp.asarray(A)), kron.process(jnp.asarray(W_V.T))),
    )
    head = Kron(jnp.asarray(A), chain_of(W_V.T, W_O.T))
    for operator in (steps, head):
        np.testing.assert_allclose(kron.act(operator, jnp.asarray(X.T)).T, H, **NEAR)
    np.testing.assert_allclose(kron.materialise(steps), definition(A, W_O @ W_V), **NEAR)


def test_E4_S3_definition_1_scores_are_positions_by_positions(
    rng: np.random.Generator, x64: None
) -> None:
    """Printed: softmax((W_Q X)(W_K X)ᵀ) W_V X. Its scores are [d_k, d_k] and mix features."""
    W_Q, W_K, W_V = (rng.normal(size=(K, D)) for _ in range(3))
    W_O, X = rng.normal(size=(D, K)), rng.normal(size=(D, N))
    A = softmax((W_Q @ X).T @ (W_K @ X))
    head = Kron(jnp.asarray(A), chain_of(W_V.T, W_O.T))
    residual = kron.act(kron.add(kron.identity(), head), jnp.asarray(X.T))
    np.testing.assert_allclose(residual.T, X + W_O @ W_V @ X @ A.T, **NEAR)
    printed = softmax((W_Q @ X) @ (W_K @ X).T)
    assert A.shape == (N, N) and printed.shape == (K, K)
    assert not np.allclose(X + W_O @ printed @ W_V @ X, residual.T)
    # the printed map is no A ⊗ W at all: frozen, it still carries nothing between positions
    only_first = np.zeros((D, N))
    only_first[:, 0] = X[:, 0]
    assert np.all((W_O @ printed @ W_V @ only_first)[:, 1:] == 0)
    assert np.all((W_O @ W_V @ only_first @ A.T)[:, 1:] != 0)


def test_S0_definition_19_the_same_map_at_every_position(
    rng: np.random.Generator, x64: None
) -> None:
    W = rng.normal(size=(D, D))
    dense = kron.materialise(kron.process(jnp.asarray(W.T)), n_ctx=N)
    np.testing.assert_allclose(dense, definition(np.eye(N), W), **NEAR)
    assert np.all(np.asarray(dense)[:D, D:] == 0)


def test_E23_S0_remark_20_moving_and_processing_commute(
    rng: np.random.Generator, x64: None
) -> None:
    """Printed: the OV circuit acts "before" the pattern moves. Either order is the same operator.

    Two moves, or two processes, do not commute, so the order is not void in general.
    """
    A, B = (softmax(rng.normal(size=(N, N))) for _ in range(2))
    V, O = rng.normal(size=(D, K)), rng.normal(size=(K, D))
    move, process = kron.move(jnp.asarray(A)), kron.process(chain_of(V, O))
    x = jnp.asarray(rng.normal(size=(N, D)))
    expected = A @ np.asarray(x) @ V @ O
    np.testing.assert_allclose(kron.act(move, kron.act(process, x)), expected, **NEAR)
    np.testing.assert_allclose(kron.act(process, kron.act(move, x)), expected, **NEAR)
    for both in (kron.compose(move, process), kron.compose(process, move)):
        np.testing.assert_allclose(kron.materialise(both), definition(A, (V @ O).T), **NEAR)
    other = kron.move(jnp.asarray(B))
    assert not np.allclose(kron.compose(move, other).A, kron.compose(other, move).A)


def test_S0_section_4_zero_layers_map_each_token_alone(rng: np.random.Generator, x64: None) -> None:
    """``T_zero = I_n ⊗ W_U W_E``: logits are rows of one table, whatever the context (Rmk. 21)."""
    W_E, W_U = rng.normal(size=(D, VOCAB)), rng.normal(size=(VOCAB, D))
    table = chain_of(W_E.T, W_U.T)
    tokens = np.array([4, 0, 4, 2])
    one_hot = np.eye(VOCAB)[tokens]
    logits = kron.act(kron.process(table), jnp.asarray(one_hot))
    np.testing.assert_allclose(logits, (W_U @ W_E @ one_hot.T).T, **NEAR)
    np.testing.assert_array_equal(logits[0], logits[2])


@pytest.mark.parametrize("causal", [False, True])
def test_S0_proposition_22_the_paths_add_up_to_the_logits(
    causal: bool, rng: np.random.Generator, x64: None
) -> None:
    """One layer, two heads, patterns frozen at their values: every path is one Kronecker term."""
    W_E, W_U = rng.normal(size=(D, VOCAB)), rng.normal(size=(VOCAB, D))
    W_Q, W_K, W_V = (rng.normal(size=(2, K, D)) for _ in range(3))
    W_O = rng.normal(size=(2, D, K))
    one_hot = np.eye(VOCAB)[[4, 0, 2]].T
    X = W_E @ one_hot
    scores = np.einsum("hki,hkj->hij", W_Q @ X, W_K @ X)
    if causal:
        scores = np.where(np.tril(np.ones((N, N), bool)), scores, -np.inf)
    A = softmax(scores)
    forward = W_U @ (X + sum(W_O[h] @ (W_V[h] @ X) @ A[h].T for h in range(2)))

    heads = [Kron(jnp.asarray(A[h]), chain_of(W_V[h].T, W_O[h].T)) for h in range(2)]
    layer = kron.add(kron.identity(), *heads)
    embed, unembed = kron.process(chain_of(W_E.T)), kron.process(chain_of(W_U.T))
    paths = kron.compose(unembed, kron.compose(layer, embed))
    assert len(paths.terms) == 3
    x = jnp.asarray(one_hot.T)
    np.testing.assert_allclose(kron.act(paths, x).T, forward, **NEAR)
    direct, *skip_trigrams = paths.terms
    assert direct.A is None
    np.testing.assert_allclose(kron.act(direct, x).T, W_U @ W_E @ one_hot, **NEAR)
    for h, path in enumerate(skip_trigrams):
        expected = definition(A[h], W_U @ W_O[h] @ W_V[h] @ W_E)
        np.testing.assert_allclose(kron.materialise(path), expected, **NEAR)
    # dropping any path breaks the sum
    assert not np.allclose(kron.act(kron.add(direct, skip_trigrams[0]), x).T, forward)
    # the gradient of a logit along the direct path is a row of the bigram table
    gradient = jax.grad(lambda x: kron.act(direct, x)[1, 3])(x)
    np.testing.assert_allclose(gradient[1], (W_U @ W_E)[3], **NEAR)


def test_E1_S0_definition_23_the_qk_circuit_needs_a_transpose(
    rng: np.random.Generator, x64: None
) -> None:
    """Printed: W_Eᵀ W_Q W_K W_E, whose shapes do not match. Corrected: W_Eᵀ W_Qᵀ W_K W_E."""
    W_E, W_Q, W_K = (rng.normal(size=s) for s in [(D, VOCAB), (K, D), (K, D)])
    with pytest.raises(ValueError, match="mismatch"):
        W_E.T @ W_Q @ W_K @ W_E
    circuit = chain_of(W_E.T, W_Q.T, W_K, W_E)
    dest, src = 1, 3
    query, key = W_Q @ W_E[:, dest], W_K @ W_E[:, src]
    np.testing.assert_allclose(materialise(circuit)[dest, src], query @ key, **NEAR)
    assert abs(materialise(circuit)[src, dest] - query @ key) > 1e-3


def test_E3_S0_definition_23_head_level_and_token_level_circuits_are_two_objects(
    rng: np.random.Generator, x64: None
) -> None:
    """Printed: W_OV for both. Here the head's is [d, d] and its full circuit [V, V] around it."""
    W_E, W_U = rng.normal(size=(VOCAB, D)), rng.normal(size=(D, VOCAB))
    W_OV = chain_of(rng.normal(size=(D, K)), rng.normal(size=(K, D)))
    full_OV = W_E @ W_OV @ jnp.asarray(W_U)
    assert W_OV.shape == (D, D) and full_OV.shape == (VOCAB, VOCAB)
    np.testing.assert_allclose(
        materialise(full_OV), W_E @ np.asarray(materialise(W_OV)) @ W_U, **NEAR
    )


def test_E33_one_layout_the_row_action_is_not_the_column_action(
    rng: np.random.Generator, x64: None
) -> None:
    """Printed in S4: (A ⊗ B) x = A x Bᵀ with tokens as rows, beside softmax(xᵀ … x) for columns.

    On rows A moves and Bᵀ processes, which is ``kron(A, B)`` on the row-major ravel; the scores of
    rows are ``x … xᵀ``, and the printed ``xᵀ … x`` has another size.
    """
    A, B, x = rng.normal(size=(N, N)), rng.normal(size=(D, D)), rng.normal(size=(N, D))
    ours = Kron(jnp.asarray(A), jnp.asarray(B.T))
    np.testing.assert_allclose(kron.act(ours, jnp.asarray(x)), A @ x @ B.T, **NEAR)
    np.testing.assert_allclose(kron.materialise(ours), definition(A, B), **NEAR)
    W_QK = rng.normal(size=(D, D))
    assert (x @ W_QK @ x.T).shape == (N, N)
    with pytest.raises(ValueError, match="mismatch"):
        x.T @ W_QK @ x
