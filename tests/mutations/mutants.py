"""Known bugs, planted one at a time: data only, run by test_mutants.py.

To add one: the file under src/circuitax, a piece of it that occurs exactly once, the bug, and the
test ids that must fail. Take the fewest and quickest tests that should notice.
"""

from typing import NamedTuple


class Mutant(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    nodes: tuple[str, ...]


MUTANTS = (
    Mutant(
        "cyclic_frobenius",  # E15, the bug of the framework paper's first composition diagram
        "kernel/spectrum.py",
        'return safe_sqrt(jnp.einsum("...ij,...ij->...", x, y))',
        "core = cyclic(chain).core\n    return safe_sqrt((core**2).sum((-2, -1)))",
        (
            "tests/kernel/test_spectrum.py::"
            "test_E15_a_cyclic_shift_keeps_eigenvalues_and_changes_norms",
        ),
    ),
    Mutant(
        "cyclic_singular_values",
        "kernel/spectrum.py",
        "linalg.singular(r_left @ jnp.matrix_transpose(r_right))",
        "linalg.singular(cyclic(chain).core)",
        ("tests/kernel/test_spectrum.py::test_singular_values_of_the_dense_matrix[thin]",),
    ),
    Mutant(
        "kron_of_A_and_W_untransposed",
        "kernel/kron.py",
        '"...ij,...ab->...ibja"',
        '"...ij,...ab->...iajb"',
        ("tests/kernel/test_kron_sources.py::test_S0_example_15_and_S3_example_4_printed_matrix",),
    ),
    Mutant(
        "composition_W2_W1",
        "kernel/kron.py",
        "_features(first.W, second.W)",
        "_features(second.W, first.W)",
        ("tests/kernel/test_kron.py::test_pairs_compose_and_have_inner_products[full-head]",),
    ),
    Mutant(
        "composition_A1_A2",
        "kernel/kron.py",
        "return second @ first\n",
        "return first @ second\n",
        ("tests/kernel/test_kron.py::test_pairs_compose_and_have_inner_products[full-head]",),
    ),
    Mutant(
        "transposed_action",
        "kernel/kron.py",
        "multiply((*matrices(term.A), x, *matrices(term.W)))",
        "multiply((*matrices(transpose(term).A), x, *matrices(term.W)))",
        ("tests/kernel/test_kron_sources.py::test_S0_claim_18_and_S3_claim_7_a_head_is_one_term",),
    ),
    Mutant(
        "norm_of_a_sum_without_cross_terms",
        "kernel/kron.py",
        "        for s in terms(x)\n        for t in terms(y)\n",
        "        for s, t in zip(terms(x), terms(y), strict=False)\n",
        ("tests/kernel/test_kron.py::test_sums_act_compose_and_measure_with_their_cross_terms",),
    ),
    Mutant(
        "top_k_loses_the_padded_tile",
        "kernel/streaming.py",
        "constant_values=-jnp.inf",
        "constant_values=0",
        ("tests/kernel/test_streaming.py::test_negative_entries_win_over_padding",),
    ),
    Mutant(
        "gauge_centred_over_destinations",
        "kernel/gauge.py",
        "Chain((*qk.factors[:-1], centre_last(qk.factors[-1])))",
        "Chain((centre_last(qk.factors[0].T).T, *qk.factors[1:]))",
        ("tests/kernel/test_gauge.py::test_centring_sources_leaves_every_pattern[False]",),
    ),
    Mutant(
        "key_gauge_R_instead_of_its_inverse",
        "kernel/gauge.py",
        "jnp.matrix_transpose(jnp.linalg.solve(R, jnp.matrix_transpose(W_K)))",
        "W_K @ R",
        ("tests/kernel/test_gauge.py::test_turning_the_inside_of_a_head_changes_nothing_outside",),
    ),
    Mutant(
        "factors_of_any_scale_are_squared",  # scores were 0 at scale 1e-12
        "kernel/linalg.py",
        "c = largest / jnp.frexp(largest)[0]",
        "c = jnp.ones_like(largest)",
        (
            "tests/kernel/test_spectrum.py::"
            "test_weights_of_any_scale_have_the_spectra_of_dense_float64[1e-12]",
        ),
    ),
    Mutant(
        "norm_gradient_at_zero",
        "kernel/linalg.py",
        "jnp.sqrt(jnp.where(positive, square, 1))",
        "jnp.sqrt(square)",
        ("tests/kernel/test_linalg.py::test_norm_and_its_gradient_at_zero",),
    ),
    Mutant(
        "mask_after_softmax",  # E22: the future leaks through the denominator
        "kernel/attention.py",
        "total = jnp.sum(exponentials, axis=-1)",
        "total = jnp.sum(jnp.exp(scores - jnp.max(scores, axis=-1, keepdims=True)), axis=-1)",
        ("tests/kernel/test_attention.py::test_E22_gradients_tell_mask_before_from_mask_after",),
    ),
    Mutant(
        "score_scale_dropped",  # E13
        "kernel/attention.py",
        'jnp.einsum("htk,hsk->hts", score_scale * q, k)',
        'jnp.einsum("htk,hsk->hts", q, k)',
        ("tests/kernel/test_attention.py::test_E13_score_scale_is_explicit",),
    ),
    Mutant(
        "causal_mask_off_by_one",
        "kernel/attention.py",
        "src[None, :] <= dest[:, None]",
        "src[None, :] <= dest[:, None] + 1",
        ("tests/kernel/test_attention.py::test_S0_rmk_11_causal_pattern_is_lower_triangular",),
    ),
    Mutant(
        "softmax_over_destinations",  # E21
        "kernel/attention.py",
        "jnp.sum(exponentials, axis=-1)",
        "jnp.sum(exponentials, axis=-2)",
        ("tests/kernel/test_attention.py::test_E21_softmax_runs_over_sources",),
    ),
    Mutant(
        "mixed_values_not_divided",
        "kernel/attention.py",
        "mix_values(exponentials, at_least_single(v)) / total[..., None]",
        "mix_values(exponentials, at_least_single(v))",
        (
            "tests/kernel/test_attention.py"
            "::test_dividing_after_mixing_is_the_same_in_value_and_gradient",
        ),
    ),
    Mutant(
        "layer_norm_with_sample_variance",  # E27
        "kernel/norm.py",
        "jnp.mean(_centred(x, norm) ** 2, axis=-1)",
        "jnp.sum(_centred(x, norm) ** 2, axis=-1) / (x.shape[-1] - 1)",
        ("tests/kernel/test_norm.py::test_S0_def_3_layer_norm_with_E27_population_variance",),
    ),
    Mutant(
        "rotary_on_queries_only",  # scores would then depend on absolute positions
        "kernel/layer.py",
        "k = turn(k, src, spec, local)",
        "k = turn(k, 0 * src, spec, local)",
        ("tests/kernel/test_forward.py::test_rotary_depends_on_offsets_only",),
    ),
    Mutant(
        "no_residual_around_the_mlp",  # E5
        "kernel/layer.py",
        "stream = stream + mlp\n",
        "stream = mlp\n",
        (
            "tests/kernel/test_forward_sources.py::"
            "test_S0_section_2_2_pre_ln_and_E5_residual_around_the_mlp",
        ),
    ),
    Mutant(
        "smeared_keys_from_the_future",
        "kernel/attention.py",
        "jnp.concatenate([k[:, :1], k[:, :-1]], axis=1)",
        "jnp.concatenate([k[:, 1:], k[:, -1:]], axis=1)",
        ("tests/kernel/test_attention.py::test_smeared_keys",),
    ),
    Mutant(
        "feature_values_not_rescaled",  # u instead of u / p
        "kernel/toy.py",
        "value = u * (1 / jnp.where(p > 0, p, 1))",
        "value = u",
        ("tests/kernel/test_toy.py::test_moments_are_p_over_2_and_p_over_3",),
    ),
    Mutant(
        "only_one_end_of_an_interval_is_checked",
        "kernel/checks.py",
        "outside = ~(above & below)",
        "outside = ~(above | below)",
        ("tests/kernel/test_checks.py::test_traced_values_pass",),
    ),
    Mutant(
        "no_series_is_no_error",  # a loss of five features without its cosine series
        "superposition/expected_loss.py",
        "if n_terms < (n_features > 2):",
        "if n_terms < 0:",
        (
            "tests/superposition/test_expected_loss.py::test_too_few_terms_are_refused_also_under_jit",
        ),
    ),
    Mutant(
        "k_gons_are_polished_from_the_plateau",  # where the gradient is zero
        "superposition/kgons.py",
        "starts = _grid_minima(k)",
        "starts = [(0.364, -1.0)]",
        ("tests/superposition/test_kgons.py::test_polygons_that_once_ended_on_the_plateau",),
    ),
    Mutant(
        "one_key_for_all_members",
        "kernel/keys.py",
        "in_axes=(None, 0))(key, indices)",
        "in_axes=(None, 0))(key, 0 * indices)",
        ("tests/kernel/test_keys.py::test_members_differ_and_do_not_depend_on_their_number",),
    ),
    Mutant(
        "bias_fold_hands_the_constant_on_in_a_residual_block",  # E25: it doubles at every layer
        "kernel/gauge.py",
        "0 if residual else 1",
        "1",
        (
            "tests/kernel/test_gauge.py::"
            "test_E25_the_constant_doubles_at_every_layer_unless_writes_leave_it",
        ),
    ),
    Mutant(
        "norm_epsilon_outside_the_root",  # E27: the gradient at a constant vector is infinite
        "kernel/norm.py",
        "jnp.sqrt(jnp.mean(_centred(x, norm) ** 2, axis=-1) + eps)",
        "jnp.sqrt(jnp.mean(_centred(x, norm) ** 2, axis=-1)) + eps",
        ("tests/kernel/test_norm.py::test_E27_constant_vector_has_finite_value_and_gradient",),
    ),
    Mutant(
        "gelu_by_tanh",  # E26
        "kernel/mlp.py",
        "approximate=False",
        "approximate=True",
        ("tests/kernel/test_mlp.py::test_E26_gelu_is_exact_and_need_not_increase",),
    ),
    Mutant(
        "further_hidden_layers_without_activation",  # S0 Definition 5: they would collapse
        "kernel/mlp.py",
        "return activate(_affine(hidden, W, b), activation), None",
        "return _affine(hidden, W, b), None",
        ("tests/kernel/test_mlp.py::test_a_network_of_depth_2_by_hand",),
    ),
    Mutant(
        "ablated_heads_are_the_ones_kept",
        "kernel/interventions.py",
        "Interventions(head_keep=1 - a, head_add=add)",
        "Interventions(head_keep=a, head_add=add)",
        ("tests/kernel/test_interventions.py::test_zero_ablation_of_every_head_in_one_call",),
    ),
    Mutant(
        "cached_text_restarts_at_position_0",
        "kernel/forward.py",
        "dest = start + jnp.arange(n_ctx, dtype=jnp.int32)",
        "dest = jnp.arange(n_ctx, dtype=jnp.int32)",
        ("tests/kernel/test_cache.py::test_pieces_equal_the_whole[rotary]",),
    ),
    Mutant(
        "path_in_the_order_of_writing",  # the last head of a path would act first
        "circuits/paths/expansion.py",
        "term = kron.compose(head_term(frozen, layer, head_of[layer]), term)",
        "term = kron.compose(term, head_term(frozen, layer, head_of[layer]))",
        ("tests/circuits/paths/test_expansion.py::test_terms_are_dense_kronecker_matrices",),
    ),
    Mutant(
        "in_context_score_with_the_other_sign",
        "circuits/losses.py",
        "losses[..., late - 1] - losses[..., early - 1]",
        "losses[..., early - 1] - losses[..., late - 1]",
        ("tests/circuits/test_losses.py::test_in_context_score_is_late_minus_early",),
    ),
    Mutant(
        "loss_slope_by_the_index_from_0",
        "circuits/losses.py",
        "np.log(index + 1.0)",
        "np.log(index + 2.0)",
        ("tests/circuits/test_losses.py::test_exact_where_the_loss_is_a_logarithm",),
    ),
    Mutant(
        "last_token_of_a_text_is_read",
        "lab/language_model.py",
        "else n_ctx - n_read + 1",
        "else n_ctx - n_read",
        (
            "tests/lab/test_language_model.py::"
            "test_a_text_ends_with_its_document_and_at_the_context",
        ),
    ),
    Mutant(
        "proof_map_without_its_gain",  # E8
        "projection/maps.py",
        "(1 + (spec.epsilon or 0.0)) / spec.dim_out",
        "1 / spec.dim_out",
        ("tests/projection/test_maps.py::test_entries_of_the_two_rademacher_maps",),
    ),
    Mutant(
        "hadamard_scaled_by_the_unpadded_dimension",
        "projection/maps.py",
        "math.sqrt(padded / dim_out)",
        "math.sqrt(dim_in / dim_out)",
        ("tests/projection/test_maps.py::test_all_rows_give_an_isometry",),
    ),
    Mutant(
        "interval_from_the_population_deviation",
        "records/estimate.py",
        "numbers.std(ddof=1)",
        "numbers.std()",
        ("tests/records/test_estimate.py::test_mean_has_the_t_interval",),
    ),
    Mutant(
        "importance_inside_the_square",  # E17
        "training/toy.py",
        "jnp.sum(importance * error)",
        "jnp.sum(importance**2 * error)",
        ("tests/training/test_toy.py::test_E17_importance_is_outside_the_square",),
    ),
    Mutant(
        "the_token_before_is_predicted",
        "kernel/forward.py",
        "targets = jnp.roll(tokens, -1, axis=-1)",
        "targets = jnp.roll(tokens, 1, axis=-1)",
        ("tests/kernel/test_forward.py::test_token_losses_by_hand_and_at_large_logits",),
    ),
    Mutant(
        "devices_train_on_the_first_share_of_a_batch",
        "training/ensemble.py",
        "return jax.lax.with_sharding_constraint(samples, PartitionSpec(*spec))",
        "return samples[: n_samples // n_devices]",
        (
            "tests/training/test_ensemble.py"
            "::test_split_batches_and_members_train_as_on_one_device[1-1-8-8-Mapping.loop]",
        ),
    ),
    Mutant(
        "weight_decay_not_applied",  # E17
        "training/optim.py",
        "Optimizer.adamw: [adam, decay]",
        "Optimizer.adamw: [adam]",
        ("tests/training/test_optim.py::test_E17_weight_decay_is_the_sources_and_not_optaxs",),
    ),
    Mutant(
        "jobs_idle_until_a_timed_experiment_is_alone",
        "commands/suite.py",
        "alone and running:\n                continue",
        "alone and running:\n                return None",
        ("tests/commands/test_reproduce.py::test_side_by_side",),
    ),
    Mutant(
        "what_an_identity_leaves_may_not_move",
        "records/agreement.py",
        'if claim.kind == "identity" else 0.0',
        'if claim.kind == "" else 0.0',
        (
            "tests/records/test_agreement.py::"
            "test_rounding_that_an_identity_leaves_may_move_within_its_limit",
        ),
    ),
    Mutant(
        "members_of_an_ensemble_share_their_data",
        "training/ensemble.py",
        "in_a_row(groups if impl is None else _of_impl(groups, impl), common)",
        "in_a_row(groups[:1], n_members)",
        ("tests/training/test_ensemble.py::test_common_random_numbers_are_the_same_batches",),
    ),
    Mutant(
        "a_diverged_member_comes_back",
        "training/problem.py",
        "alive = state.alive & jnp.isfinite(loss)",
        "alive = jnp.isfinite(loss)",
        (
            "tests/training/test_problem.py::"
            "test_a_diverged_member_stays_so_when_later_batches_are_fine",
        ),
    ),
    Mutant(
        "the_same_batch_at_every_step",
        "training/problem.py",
        "problem.batch(member.data_key, state.step)",
        "problem.batch(member.data_key, 0 * state.step)",
        ("tests/training/test_problem.py::test_steps_are_adamw_on_the_schedule",),
    ),
    Mutant(
        "query_and_key_composition_swapped",
        "circuits/weights/composition.py",
        "near = (heads.W_O, heads.W_Q, heads.W_K, heads.W_V)",
        "near = (heads.W_O, heads.W_K, heads.W_Q, heads.W_V)",
        ("tests/circuits/weights/test_composition.py::test_scores_are_dense_norms",),
    ),
    Mutant(
        "shapley_with_the_wrong_shares",
        "circuits/term_losses.py",
        "math.factorial(n_players - size - 1)",
        "math.factorial(n_players - size)",
        ("tests/circuits/test_term_losses.py::test_shapley_is_the_mean_over_orders_of_arrival",),
    ),
    Mutant(
        "a_diverged_member_keeps_moving",
        "training/problem.py",
        "jnp.where(alive, new, old), moved, kept",
        "new, moved, kept",
        ("tests/training/test_problem.py::test_a_run_freezes_where_it_diverges",),
    ),
    Mutant(
        "composition_cycled_inside_the_norm",  # E15 in the product that a score is the norm of
        "circuits/weights/composition.py",
        "chain_of(heads.W_V[writer], heads.W_O[writer], *read)",
        "chain_of(heads.W_O[writer], *read, heads.W_V[writer])",
        ("tests/circuits/weights/test_composition.py::test_scores_are_dense_norms[1-2]",),
    ),
    Mutant(
        "composition_without_what_lies_inside",  # E15's kind of error where scores are computed
        "circuits/weights/composition.py",
        "_turned(write_G[:-1], written(i))",
        "jnp.matrix_transpose(written(i))",
        ("tests/circuits/weights/test_composition.py::test_scores_are_dense_norms[1-2]",),
    ),
    Mutant(
        "score_scale_dropped_from_the_table",
        "circuits/weights/heads.py",
        "jnp.matrix_transpose(W_K), rows.T), model.spec.scale)",
        "jnp.matrix_transpose(W_K), rows.T), 1.0)",
        ("tests/circuits/weights/test_heads.py::test_S0_def_23_full_circuits_E1_E2_E3",),
    ),
    Mutant(
        "source_and_destination_swapped",
        "circuits/weights/token_tables.py",
        "attended = top_k_columns(qk.T, 1",
        "attended = top_k_columns(qk, 1",
        (
            "tests/circuits/weights/test_token_tables.py::test_S0_table_1_rows_follow_the_stated_rule",
        ),
    ),
    Mutant(
        "a_fixed_repeat_period",
        "circuits/detectors.py",
        "jnp.pad(duplicate_mask(tokens)[:, :-1], ((0, 0), (1, 0)))",
        "jnp.eye(tokens.shape[0], k=-4, dtype=bool)",
        (
            "tests/circuits/test_detectors.py::"
            "test_repeats_of_any_period_are_found_and_a_fixed_offset_is_not",
        ),
    ),
    Mutant(
        "prefix_matching_preceded_by",
        "circuits/detectors.py",
        "jnp.pad(duplicate_mask(tokens)[:, :-1], ((0, 0), (1, 0)))",
        "jnp.pad(duplicate_mask(tokens)[:, 1:], ((0, 0), (0, 1)))",
        ("tests/circuits/test_detectors.py::test_prefix_matching_means_followed_by",),
    ),
    Mutant(
        "a_head_that_looks_at_itself_looks_at_a_duplicate",
        "circuits/detectors.py",
        "return jnp.tril(_same(tokens), k=-1)",
        "return jnp.tril(_same(tokens))",
        ("tests/circuits/test_known.py::test_each_role_is_given_to_its_heads_and_to_no_others",),
    ),
    Mutant(
        "ledger_sources_reversed",
        "circuits/ledger/ledger_steps.py",
        "sources = [hop % (n_ctx + 1) for hop in hops]",
        "sources = [hop % (n_ctx + 1) for hop in hops][::-1]",
        (
            "tests/circuits/test_known.py::"
            "test_the_ledger_finds_the_paths_of_known_circuits_and_no_others",
        ),
    ),
    Mutant(
        "position_paths_mixed_by_A",
        "circuits/ledger/path_bounds.py",
        "P, norms = model.A**2, norms_of(model)",
        "P, norms = model.A, norms_of(model)",
        (
            "tests/circuits/ledger/test_ledger.py::test_position_moments_are_the_exact_sum_of_squares",
        ),
    ),
    Mutant(
        "audit_takes_what_is_no_number",
        "superposition/pair_proof.py",
        "n_wrong += not (right and bound <= min(losses))",
        "n_wrong += bound > above",
        (
            "tests/superposition/test_pair_proof.py::"
            "test_bounds_and_balls_that_are_no_numbers_are_wrong",
        ),
    ),
    Mutant(
        "determinants_without_their_rounding",
        "superposition/triple_cells.py",
        "missed = TERMS_ROUNDED * np",
        "missed = 0 * np",
        (
            "tests/superposition/test_triple_proof.py::"
            "test_gram_matrices_without_any_room_are_possible",
        ),
    ),
    Mutant(
        "ledger_prunes_too_early",
        "circuits/ledger/best_first.py",
        "keep = front.bound > best.least",
        "keep = front.bound > 3 * best.least",
        ("tests/circuits/ledger/test_ledger.py::test_head_paths_equal_brute_force[full]",),
    ),
    Mutant(
        "ledger_forms_without_their_rounding",
        "circuits/ledger/ledger_steps.py",
        "lost(d * d) * size + error + floor(size)",
        "floor(size)",
        (
            "tests/circuits/ledger/test_certificates.py::"
            "test_a_path_whose_square_is_lost_beside_larger_ones_is_found[True]",
        ),
    ),
    Mutant(
        "dressed_moments_past_no_mlp",
        "circuits/ledger/dressed_moments.py",
        "N = np.stack(list(threads.map(past, before, in_X[layer, here], positions)))",
        "N = before.copy()",
        (
            "tests/circuits/ledger/test_dressed_ledger.py::"
            "test_no_larger_path_is_ever_left_out[ordinary-sequential-heads]",
        ),
    ),
    Mutant(
        "dressed_moments_are_not_raised",
        "circuits/ledger/dressed_moments.py",
        "N.reshape(*N.shape[:-2], d * d)[..., :: d + 1] += diagonal",
        "N.reshape(*N.shape[:-2], d * d)[..., :: d + 1] += 0 * diagonal",
        (
            "tests/circuits/ledger/test_dressed_ledger.py::"
            "test_no_larger_path_is_ever_left_out[swallowed-sequential-heads]",
        ),
    ),
    Mutant(
        "neurons_reach_less_than_precedes",
        "circuits/ledger/dressed_steps.py",
        "reach = np.sqrt(squares) * (1 + lost(0))",
        "reach = 0.2 * np.sqrt(squares) * (1 + lost(0))",
        (
            "tests/circuits/ledger/test_dressed_ledger.py::"
            "test_no_larger_path_is_ever_left_out[swallowed-sequential-neurons]",
        ),
    ),
    Mutant(
        "dressed_direct_path_loses_nothing",
        "circuits/ledger/dressed_steps.py",
        "np.abs(w)) + CARRIED * reach + FLOOR",
        "np.abs(w)) + 0 * reach + FLOOR",
        (
            "tests/circuits/ledger/test_dressed_ledger.py::"
            "test_no_larger_path_is_ever_left_out[swallowed-sequential-heads]",
        ),
    ),
    Mutant(
        "walks_weigh_by_their_last_step_alone",
        "circuits/ledger/path_mass.py",
        "(state, chance * odds[child], walks[chosen == child])",
        "(state, odds[child], walks[chosen == child])",
        ("tests/circuits/ledger/test_path_mass.py::test_many_walks_find_sum_and_number",),
    ),
    Mutant(
        "units_of_an_mlp_weigh_as_they_are_scaled",
        "circuits/weights/mlps.py",
        "W_out * safe_sqrt(reads)[:, None]",
        "W_out * safe_sqrt(reads)[:, None] ** 0",
        ("tests/circuits/weights/test_mlps.py::test_scores_are_norms_over_all_units[False]",),
    ),
    Mutant(
        "dressed_scores_past_no_mlp",
        "circuits/score_terms.py",
        "parts, written = after_layer(frozen, before, parts, outputs[before])",
        "parts, written = parts, outputs[before]",
        (
            "tests/circuits/test_score_terms.py::"
            "test_dressed_terms_are_products_of_every_path[head]",
        ),
    ),
    Mutant(
        "ledger_sums_lose_nothing",
        "circuits/ledger/host_model.py",
        "return (n + 8) * 2.0**-52",
        "return 0.0 * n",
        (
            "tests/circuits/ledger/test_certificates.py::"
            "test_paths_that_differ_by_less_than_rounding_are_left_open",
        ),
    ),
    Mutant(
        "order_terms_one_order_too_low",
        "circuits/paths/orders.py",
        "streams.at[1:].add(written)",
        "streams.at[:-1].add(written)",
        ("tests/circuits/paths/test_orders.py::test_orders_are_sums_of_paths",),
    ),
    Mutant(
        "own_position_not_split",
        "circuits/paths/expansion.py",
        "jnp.diag(jnp.diagonal(term.A))",
        "1.0 * term.A",
        ("tests/circuits/paths/test_expansion.py::test_E24_own_position_terms_are_bigrams",),
    ),
    Mutant(
        "norm_scale_of_the_destination",
        "circuits/paths/frozen.py",
        "trace.scales.attention[:, None, None, :]",
        "trace.scales.attention[:, None, :, None]",
        (
            "tests/circuits/paths/test_expansion.py::"
            "test_paths_close_with_norms_biases_positions[layernorm]",
        ),
    ),
    Mutant(
        "overlap_null_of_half_the_variance",
        "circuits/weights/spectra.py",
        "variance = 2 * a * (d - a)",
        "variance = a * (d - a)",
        ("tests/circuits/weights/test_spectra.py::test_overlap_spreads_as_stated[4-2]",),
    ),
    Mutant(
        "ledger_of_the_raw_unembedding",
        "circuits/ledger/ledger.py",
        "W_U, b_U = frozen.read_out.W_U, frozen.read_out.b_U",
        "W_U, b_U = run.model.W_U, run.model.b_U",
        (
            "tests/circuits/ledger/test_ledger.py::"
            "test_paths_through_every_norm_add_up_to_the_models_logits[layernorm-False]",
        ),
    ),
    Mutant(
        "overlap_of_dependent_columns",
        "circuits/weights/spectra.py",
        "jnp.finfo(sizes.dtype).eps * sizes[..., 0]",
        "jnp.finfo(sizes.dtype).tiny * sizes[..., 0]",
        ("tests/circuits/weights/test_spectra.py::test_maps_of_lower_rank_are_refused[1.0]",),
    ),
    Mutant(
        "a_gated_bias_stays_before_the_product",
        "models/lens_format.py",
        "late = jnp.asarray(b_out + np.einsum(",
        "late = jnp.asarray(b_out + 0 * np.einsum(",
        ("tests/models/test_lens_format.py::test_logits_and_patterns_of_TransformerLens[grouped]",),
    ),
    Mutant(
        "frozen_gradients_through_norms",
        "circuits/patching.py",
        "held._replace(all_patterns=trace.patterns, scales=trace.scales)",
        "held._replace(all_patterns=trace.patterns)",
        ("tests/circuits/test_patching.py::test_frozen_it_is_the_sum_of_all_paths_through_a_head",),
    ),
    Mutant(
        "difference_of_intervals_end_by_end",
        "superposition/intervals.py",
        "_outwards(self.low - other.high, self.high - other.low)",
        "_outwards(self.low - other.low, self.high - other.high)",
        ("tests/superposition/test_intervals.py::test_results_of_members_are_members",),
    ),
    Mutant(
        "rotary_heads_composed_at_the_opposite_offset",
        "circuits/weights/composition.py",
        "rotation(model.spec, offset, W_Q.dtype)",
        "rotation(model.spec, -offset, W_Q.dtype)",
        (
            "tests/circuits/weights/test_composition.py::"
            "test_grouped_rotary_heads_compose_at_an_offset_as_dense_maps_do",
        ),
    ),
    Mutant(
        "words_of_a_double_in_the_other_order",  # as uniform, but other numbers than JAX draws
        "kernel/keys.py",
        "high.astype(jnp.uint64) << 32 | low.astype(jnp.uint64)",
        "low.astype(jnp.uint64) << 32 | high.astype(jnp.uint64)",
        ("tests/kernel/test_keys.py::test_numbers_are_those_of_jax[shape2-True]",),
    ),
    Mutant(
        "both_slopes_by_the_first_coupling",
        "superposition/triple_loss.py",
        "return at[0], at[2], at[1], at[3]",
        "return at[0], at[1], at[2], at[3]",
        (
            "tests/superposition/test_triple_proof.py::"
            "test_slopes_are_those_of_the_value_and_work_is_half_of_one",
        ),
    ),
    Mutant(
        "work_at_the_lower_end_of_a_bias",  # least, where the bound needs the greatest
        "superposition/triple_loss.py",
        "- twice_work.high[:, left + side]",
        "- twice_work.high[:, left]",
        (
            "tests/superposition/test_triple_proof.py::"
            "test_bounds_lie_below_every_member_and_come_closer_with_the_square_of_the_size",
        ),
    ),
    Mutant(
        "shared_cells_in_one_order_of_their_couplings",
        "superposition/triple_cells.py",
        "other_order = least[:, [0, 2, 1, 3]]",
        "other_order = least",
        (
            "tests/superposition/test_triple_proof.py::"
            "test_the_bound_of_a_box_lies_below_the_loss_of_its_members",
        ),
    ),
    Mutant(
        "chained_lookups_are_one_lookup",  # which one layer could do
        "data/synthetic.py",
        "jnp.where(done < steps, follow(answers), answers)",
        "jnp.where(done < steps, follow(starts), answers)",
        ("tests/data/test_synthetic.py::test_every_answer_is_where_the_listed_map_leads",),
    ),
    Mutant(
        "a_claim_leads_to_the_first_function_of_a_name_like_its_own",
        "records/measured.py",
        "fnmatchcase(quantity, name)",
        'quantity.startswith(name.rstrip("*"))',
        (
            "tests/records/test_measures.py::"
            "test_a_quantity_leads_to_the_function_that_declares_it[narrow-again-again]",
        ),
    ),
    Mutant(
        "cells_all_at_once_whatever_they_hold",
        "circuits/patching.py",
        "size = max(1, BLOCK_ENTRIES // held)",
        "size = max(n_cells, BLOCK_ENTRIES // held)",
        (
            "tests/circuits/test_patching.py::"
            "test_cells_that_do_not_fit_at_once_are_run_block_by_block",
        ),
    ),
    Mutant(
        "planted_heads_share_their_noise",
        "circuits/known.py",
        "jax.random.normal(key, (c.shape[0], rows, columns))",
        "jax.random.normal(key, (1, rows, columns))",
        (
            "tests/circuits/test_known.py::"
            "test_random_parts_differ_from_head_to_head_and_from_part_to_part",
        ),
    ),
    Mutant(
        "path_bounds_of_starts_alone",  # a certificate that a deeper path breaks
        "circuits/ledger/path_bounds.py",
        "squares = np.swapaxes(scaled, 1, 2) @ scaled + deep @ deep",
        "squares = np.swapaxes(scaled, 1, 2) @ scaled",
        (
            "tests/circuits/ledger/test_ledger.py::test_path_bounds_hold_for_every_path_and_bite[12]",
        ),
    ),
    Mutant(
        "few_initial_weights_from_the_end_of_a_draw",
        "models/toy.py",
        "return scaled[:count].reshape(shape)",
        "return scaled[-count:].reshape(shape)",
        (
            "tests/models/test_toy.py::"
            "test_initial_weights_are_those_of_flax_bit_for_bit[127-False]",
        ),
    ),
    Mutant(
        "sources_counted_are_those_that_see",
        "circuits/skip_trigrams.py",
        "_allowed(model, n_ctx).sum(axis=-1, keepdims=True)",
        "_allowed(model, n_ctx).sum(axis=-2)[..., None]",
        (
            "tests/circuits/test_skip_trigrams.py::"
            "test_the_count_of_sources_is_the_denominator_where_scores_are_0",
        ),
    ),
    Mutant(
        "twins_see_the_models_floor",  # a number moved a little, one floor after the other
        "models/parameters.py",
        "rows = spec.init_embed / math.sqrt(spec.d_model)",
        "rows = 1.01 * spec.init_embed / math.sqrt(spec.d_model)",
        (
            "tests/experiments/test_tiny.py::"
            "test_experiment_gives_the_numbers_of_its_accepted_code[bigram]",
        ),
    ),
    Mutant(
        # More smoothing of the table that a model is held against; much more, since on another
        # processor than the twin's a change below a thousandth passes for rounding.
        "twins_see_the_data_floor",
        "data/tables.py",
        "return (counts + strength * unigram[None, :]) / (rows + strength)",
        "return (counts + 30 * strength * unigram[None, :]) / (rows + 30 * strength)",
        (
            "tests/experiments/test_tiny.py::"
            "test_experiment_gives_the_numbers_of_its_accepted_code[bigram]",
        ),
    ),
    Mutant(
        "twins_see_the_training_floor",  # Adam with a little less momentum
        "training/optim.py",
        "adam = optax.scale_by_adam(b1=spec.b1, b2=spec.b2, eps=spec.eps)",
        "adam = optax.scale_by_adam(b1=0.99 * spec.b1, b2=spec.b2, eps=spec.eps)",
        (
            "tests/experiments/test_tiny.py::"
            "test_experiment_gives_the_numbers_of_its_accepted_code[bigram]",
        ),
    ),
    Mutant(
        "twins_see_the_circuits_floor",  # noise of planted heads a little too strong
        "circuits/known.py",
        "c * planted[None] + jnp.sqrt(1 - c**2) * noise",
        "c * planted[None] + jnp.sqrt(1 - 0.99 * c**2) * noise",
        (
            "tests/experiments/test_tiny.py::"
            "test_experiment_gives_the_numbers_of_its_accepted_code[planted_heads]",
        ),
    ),
    Mutant(
        "twins_see_the_superposition_floor",  # loss of a k-gon's other features
        "superposition/kgons.py",
        "(h + n_features - k) / (3 * n_features)",
        "(h + n_features - k) / (3.01 * n_features)",
        (
            "tests/experiments/test_tiny.py::"
            "test_experiment_gives_the_numbers_of_its_accepted_code[kgons]",
        ),
    ),
    Mutant(
        "twins_see_the_kernel",  # scores a little too sharp
        "kernel/attention.py",
        'return jnp.einsum("htk,hsk->hts", score_scale * q, k)',
        'return jnp.einsum("htk,hsk->hts", 1.01 * score_scale * q, k)',
        (
            "tests/experiments/test_tiny.py::"
            "test_experiment_gives_the_numbers_of_its_accepted_code[planted_heads]",
        ),
    ),
    Mutant(
        "edges_past_chosen_heads",  # what flows through a chosen head counts again behind it
        "circuits/paths/path_graph.py",
        "frozen._replace(A=frozen.A * kept,",
        "frozen._replace(A=frozen.A,",
        (
            "tests/circuits/paths/test_path_graph.py::"
            "test_what_enters_a_node_leaves_it_and_the_logit_gets_all[gelu]",
        ),
    ),
    Mutant(
        "edges_of_a_node_left_out_at_its_own_position",
        "circuits/paths/path_graph.py",
        "0 if ahead else place for place in",
        "0 if ahead else place + 1 for place in",
        (
            "tests/circuits/paths/test_path_graph.py::"
            "test_what_enters_a_node_leaves_it_and_the_logit_gets_all[gelu]",
        ),
    ),
    Mutant(
        "streams_begin_a_layer_late",
        "circuits/paths/path_graph.py",
        "rows.begins <= layer",
        "rows.begins < layer",
        (
            "tests/circuits/paths/test_path_graph.py::"
            "test_what_enters_a_node_leaves_it_and_the_logit_gets_all[gelu]",
        ),
    ),
)
