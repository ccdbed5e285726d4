"""Known bugs, planted one at a time: a name, a piece of the kernel, circuits or superposition that
occurs once in these packages, and the bug. The tests of the file that holds it must notice.
"""

# At most forty: whoever adds one names the one that it replaces.
MUTANTS = {
    "cyclic_frobenius": (
        'return safe_sqrt(jnp.einsum("...ij,...ij->...", x, y))',
        "core = cyclic(chain).core\n    return safe_sqrt((core**2).sum((-2, -1)))",
    ),
    "composition_W2_W1": (
        "_features(first.W, second.W)",
        "_features(second.W, first.W)",
    ),
    "composition_A1_A2": (
        "return second @ first\n",
        "return first @ second\n",
    ),
    "top_k_loses_the_padded_tile": (
        "constant_values=-jnp.inf",
        "constant_values=0",
    ),
    "gauge_centred_over_destinations": (
        "Chain((*qk.factors[:-1], centre_last(qk.factors[-1])))",
        "Chain((centre_last(qk.factors[0].T).T, *qk.factors[1:]))",
    ),
    "norm_gradient_at_zero": (
        "jnp.sqrt(jnp.where(positive, square, 1))",
        "jnp.sqrt(square)",
    ),
    "score_scale_dropped": (
        'jnp.einsum("htk,hsk->hts", score_scale * q, k)',
        'jnp.einsum("htk,hsk->hts", q, k)',
    ),
    "causal_mask_off_by_one": (
        "src[None, :] <= dest[:, None]",
        "src[None, :] <= dest[:, None] + 1",
    ),
    "mixed_values_not_divided": (
        "mix_values(exponentials, at_least_single(v)) / total[..., None]",
        "mix_values(exponentials, at_least_single(v))",
    ),
    "layer_norm_with_sample_variance": (
        "jnp.mean(centred(x, norm) ** 2, axis=-1)",
        "jnp.sum(centred(x, norm) ** 2, axis=-1) / (x.shape[-1] - 1)",
    ),
    "smeared_keys_from_the_future": (
        "jnp.concatenate([k[:, :1], k[:, :-1]], axis=1)",
        "jnp.concatenate([k[:, 1:], k[:, -1:]], axis=1)",
    ),
    "feature_values_not_rescaled": (
        "value = u * (1 / jnp.where(p > 0, p, 1))",
        "value = u",
    ),
    "only_one_end_of_an_interval_is_checked": (
        "outside = ~(above & below)",
        "outside = ~(above | below)",
    ),
    "no_series_is_no_error": (
        "if n_terms < (n_features > 2):",
        "if n_terms < 0:",
    ),
    "k_gons_are_polished_from_the_plateau": (
        "starts = _grid_minima(k)",
        "starts = [(0.364, -1.0)]",
    ),
    "one_key_for_all_members": (
        "in_axes=(None, 0))(key, indices)",
        "in_axes=(None, 0))(key, 0 * indices)",
    ),
    "bias_fold_hands_the_constant_on_in_a_residual_block": (
        "0 if residual else 1",
        "1",
    ),
    "norm_epsilon_outside_the_root": (
        "jnp.sqrt(jnp.mean(centred(x, norm) ** 2, axis=-1) + eps)",
        "(jnp.sqrt(jnp.mean(centred(x, norm) ** 2, axis=-1)) + eps)",
    ),
    "ablated_heads_are_the_ones_kept": (
        "Interventions(head_keep=1 - a, head_add=add)",
        "Interventions(head_keep=a, head_add=add)",
    ),
    "path_in_the_order_of_writing": (
        "term = kron.compose(head_term(frozen, layer, head_of[layer]), term)",
        "term = kron.compose(term, head_term(frozen, layer, head_of[layer]))",
    ),
    "in_context_score_with_the_other_sign": (
        "losses[..., late - 1] - losses[..., early - 1]",
        "losses[..., early - 1] - losses[..., late - 1]",
    ),
    "loss_slope_by_the_index_from_0": (
        "np.log(index + 1.0)",
        "np.log(index + 2.0)",
    ),
    "the_token_before_is_predicted": (
        "targets = jnp.roll(tokens, -1, axis=-1)",
        "targets = jnp.roll(tokens, 1, axis=-1)",
    ),
    "query_and_key_composition_swapped": (
        "near = (heads.W_O, heads.W_Q, heads.W_K, heads.W_V)",
        "near = (heads.W_O, heads.W_K, heads.W_Q, heads.W_V)",
    ),
    "shapley_with_the_wrong_shares": (
        "math.factorial(n_players - size - 1)",
        "math.factorial(n_players - size)",
    ),
    "composition_cycled_inside_the_norm": (
        "chain_of(heads.W_V[writer], heads.W_O[writer], *read)",
        "chain_of(heads.W_O[writer], *read, heads.W_V[writer])",
    ),
    "composition_without_what_lies_inside": (
        "_turned(write_G[:-1], written(i))",
        "jnp.matrix_transpose(written(i))",
    ),
    "score_scale_dropped_from_the_table": (
        "jnp.matrix_transpose(W_K), rows.T), model.spec.scale)",
        "jnp.matrix_transpose(W_K), rows.T), 1.0)",
    ),
    "source_and_destination_swapped": (
        "attended = top_k_columns(qk.T, 1",
        "attended = top_k_columns(qk, 1",
    ),
    "prefix_matching_preceded_by": (
        "jnp.pad(duplicate_mask(tokens)[:, :-1], ((0, 0), (1, 0)))",
        "jnp.pad(duplicate_mask(tokens)[:, 1:], ((0, 0), (0, 1)))",
    ),
    "walks_weigh_by_their_last_step_alone": (
        "(state, chance * odds[child], walks[chosen == child])",
        "(state, odds[child], walks[chosen == child])",
    ),
    "units_of_an_mlp_weigh_as_they_are_scaled": (
        "W_out * safe_sqrt(reads)[:, None]",
        "W_out * safe_sqrt(reads)[:, None] ** 0",
    ),
    "dressed_scores_past_no_mlp": (
        "parts, written = after_layer(frozen, before, parts, outputs[before])",
        "parts, written = parts, outputs[before]",
    ),
    "order_terms_one_order_too_low": (
        "streams.at[1:].add(written)",
        "streams.at[:-1].add(written)",
    ),
    "own_position_not_split": (
        "jnp.diag(jnp.diagonal(term.A))",
        "1.0 * term.A",
    ),
    "ledger_of_the_raw_unembedding": (
        "W_U, b_U = frozen.read_out.W_U, frozen.read_out.b_U",
        "W_U, b_U = run.model.W_U, run.model.b_U",
    ),
    "overlap_of_dependent_columns": (
        "jnp.finfo(sizes.dtype).eps * sizes[..., 0]",
        "jnp.finfo(sizes.dtype).tiny * sizes[..., 0]",
    ),
    "frozen_gradients_through_norms": (
        "held._replace(all_patterns=trace.patterns, scales=trace.scales)",
        "held._replace(all_patterns=trace.patterns)",
    ),
    "difference_of_intervals_end_by_end": (
        "_outwards(self.low - other.high, self.high - other.low)",
        "_outwards(self.low - other.low, self.high - other.high)",
    ),
}
