"""The path ledger against brute force, and the bounds of its search."""

import io
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tqdm import tqdm

from circuitax.circuits.ledger import best_first, ledger, path_bounds, path_mass
from circuitax.circuits.ledger.host_model import host_model
from circuitax.circuits.paths import expansion, frozen
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import freeze
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.run import run as run_model
from circuitax.kernel.weights import NormWeights

FULL = {"biases": True, "norm": Norm.layernorm, "positions": Positions.learned}


def _model(run):
    return frozen.frozen_model(run, mlps="sources")


def _head_path_values(model, position, direction):
    w = np.asarray(direction) / np.asarray(
        1.0 if model.read_out.scale is None else model.read_out.scale[position]
    )
    return np.asarray(expansion.path_streams(model))[:, position] @ w


def _position_path_values(model, position, direction):
    """Every chain of (head, source), by nested loops in NumPy."""
    host = host_model(model)
    w = np.asarray(direction) / float(
        1.0 if model.read_out.scale is None else model.read_out.scale[position]
    )
    n_layers, n_heads = model.A.shape[:2]
    values = {((), ()): host.direct[position] @ w}
    for path in expansion.all_paths(n_layers, n_heads):
        if not path:
            continue
        flat = [layer * n_heads + head for layer, head in path]
        u = w
        directions = []
        for head in reversed(flat):
            directions.append(host.W_O[head] @ u)
            u = host.W_V[head] @ directions[-1]
        directions = directions[::-1]
        for sources in itertools.product(range(position + 1), repeat=len(path)):
            chain = [*sources, position]  # source of the first head, …, the logit's position
            if any(a > b for a, b in itertools.pairwise(chain)):
                continue
            weight = np.prod([host.A[h, chain[i + 1], chain[i]] for i, h in enumerate(flat)])
            read = host.reads[path[0][0]][path[0][1], 0, sources[0]]
            values[path, tuple(sources)] = weight * (read @ directions[0])
            later = np.prod([host.A[h, chain[i + 1], chain[i]] for i, h in enumerate(flat) if i])
            key = (path, (None, *sources[1:]))
            values[key] = later * (host.b_V[flat[0], chain[1]] @ directions[0])
    return values


@pytest.mark.parametrize("options", [{}, FULL], ids=["bare", "full"])
def test_head_paths_equal_brute_force(options, make_run, x64):
    run = make_run(4, n_heads=3, **options)
    model = _model(run)
    direction = run.model.W_U[:, 2] - run.model.W_U[:, 5]
    values = _head_path_values(model, 3, direction)
    found = ledger.head_ledger(model, 3, direction, k=12)
    order = np.argsort(-np.abs(values))
    np.testing.assert_allclose(found.values, values[order[:12]], rtol=1e-10)
    names = list(expansion.all_paths(4, 3))
    assert list(found.paths) == [names[i] for i in order[:12]]
    assert found.complete and found.omitted_bound <= abs(found.values[-1])
    assert np.abs(values[order[12]]) <= found.omitted_bound * (1 + 1e-12)
    np.testing.assert_allclose(found.found + found.remainder, values.sum(), atol=1e-12)
    assert found.n_evaluated < len(values)


def test_patterns_that_subtract_are_bounded_too(make_run, rng, x64):
    """Not a softmax's: entries of both signs, whose rows cancel."""
    run = make_run(4, n_heads=3)
    model = _model(run)
    A = jnp.asarray(np.tril(rng.normal(size=model.A.shape)))
    A = A.at[..., 0].add(-A.sum(axis=-1))  # rows of sum 0 would make a bound by sums 0
    model = model._replace(A=A)
    direction = run.model.W_U[:, 2]
    values = _head_path_values(model, 3, direction)
    found = ledger.head_ledger(model, 3, direction, k=6)
    order = np.argsort(-np.abs(values))
    np.testing.assert_allclose(found.values, values[order[:6]], rtol=1e-10)
    assert found.complete and np.abs(values[order[6]]) <= found.omitted_bound * (1 + 1e-12)


def test_paths_and_remainder_are_the_logit(make_run, x64):
    run = make_run(3)
    found = ledger.head_ledger(_model(run), 4, run.model.W_U[:, 1], k=5)
    np.testing.assert_allclose(found.found + found.remainder, run.logits[4, 1], atol=1e-12)


@pytest.mark.parametrize("options", [{}, FULL], ids=["bare", "full"])
def test_position_paths_equal_brute_force(options, make_run, x64):
    run = make_run(3, n_heads=2, **options)
    model = _model(run)
    direction = run.model.W_U[:, 3]
    values = _position_path_values(model, 3, direction)
    found = ledger.position_ledger(model, 3, direction, k=10)
    order = sorted(values, key=lambda key: -abs(values[key]))[:11]
    np.testing.assert_allclose(found.values, [values[key] for key in order[:10]], rtol=1e-9)
    assert list(zip(found.paths, found.positions, strict=True)) == order[:10]
    assert found.complete and abs(values[order[10]]) <= found.omitted_bound * (1 + 1e-12)
    np.testing.assert_allclose(found.found + found.remainder, sum(values.values()), atol=1e-11)


def test_the_hosts_final_stream_is_the_models(make_run, x64):
    run = make_run(3, biases=True, norm=Norm.layernorm, positions=Positions.learned)
    model = frozen.frozen_model(run)
    found = path_bounds.sum_of_paths(host_model(model))
    np.testing.assert_allclose(found, run.trace.streams[-1], atol=1e-12)


def test_position_moments_are_the_exact_sum_of_squares(make_run, x64):
    run = make_run(3, **FULL)
    model = _model(run)
    w = np.asarray(run.model.W_U[:, 0])
    values = _position_path_values(
        model._replace(read_out=model.read_out._replace(scale=None)), 4, w
    )
    moments = path_bounds.position_path_moments(host_model(model), 4)
    squares = sum(value**2 for (path, _), value in values.items() if path)
    np.testing.assert_allclose(w @ moments.at_end @ w, squares, rtol=1e-10)


@pytest.mark.parametrize("rank", [1, 12])
def test_path_bounds_hold_for_every_path_and_bite(make_run, x64, rng, monkeypatch, rank):
    """Above the largest path in every direction, and below the sum of all squares."""
    monkeypatch.setattr(path_bounds, "_RANK", rank)
    run = make_run(3, n_heads=3, mlp=True)
    host = host_model(_model(run))
    found = path_bounds.head_path_bounds(host, 4)
    ends = {}  # by the last head: what every path brings to it, before its W_O
    for head in range(9):
        before = np.flatnonzero(host.layer < host.layer[head])
        earlier = [y @ host.W_O[h] for h in before for y in ends[h]]
        moved = [y @ host.W_V[head] for y in earlier]
        ends[head] = [host.A[head] @ v for v in [*host.reads[head // 3][head % 3], *moved]]
        if moved:
            u = rng.normal(size=(50, host.W_V.shape[2]))
            values = np.einsum("qsk,uk->qus", moved, u) ** 2
            bound = np.einsum("uk,skj,uj->us", u, found.at_head[head], u)
            assert (values.max(axis=0) <= bound * (1 + 1e-12)).all()
            if rank == 12 and host.layer[head] == 2:
                assert np.median(bound / values.sum(axis=0)) < 1
        last = np.array(ends[head])[:, 4]
        u = rng.normal(size=(50, host.W_V.shape[2]))
        bound = np.einsum("uk,kj,uj->u", u, found.at_end[head], u)
        assert (((last @ u.T) ** 2).max(axis=0) <= bound * (1 + 1e-12)).all()


def test_a_budget_leaves_a_stated_gap(make_run, x64):
    run = make_run(5, n_heads=3)
    model = _model(run)
    direction = run.model.W_U[:, 2]
    values = _head_path_values(model, 4, direction)
    found = ledger.head_ledger(model, 4, direction, k=30, budget=40)
    assert not found.complete and found.n_evaluated < len(values)
    listed = [expansion.path_index(path, 3) for path in found.paths]
    left_out = np.abs(np.delete(values, listed))
    assert abs(found.values[-1]) < left_out.max() <= found.omitted_bound


def test_rounds_tell_how_the_bound_fell_and_bounds_serve_several_directions(
    make_run, x64, monkeypatch
):
    bars, terminal = [], {"disable": False, "file": io.StringIO()}
    monkeypatch.setattr(
        best_first, "tqdm", lambda **how: bars.append(tqdm(**how | terminal)) or bars[-1]
    )
    run = make_run(5, n_heads=3)
    model = _model(run)
    bounds = path_bounds.head_path_bounds(host_model(model), 4)
    for token in (1, 2):
        direction = run.model.W_U[:, token]
        found = ledger.head_ledger(model, 4, direction, k=3, bounds=bounds)
        alone = ledger.head_ledger(model, 4, direction, k=3)
        assert found.paths == alone.paths and found.omitted_bound == alone.omitted_bound
        evaluated, bound, kth = np.array(found.rounds).T
        assert len(evaluated) > 2 and (np.diff(evaluated) > 0).all() and (np.diff(kth) >= 0).all()
        assert bound[-1] == found.omitted_bound and evaluated[-1] == found.n_evaluated
        assert bars[-1].delay == 2 and bars[-1].n == found.n_evaluated
        # At any time no path outside the k largest so far is beyond the bound of that time.
        sizes = np.sort(np.abs(_head_path_values(model, 4, direction)))[::-1]
        assert (bound >= sizes[3] * (1 - 1e-12)).all() and bound[0] > kth[0]
    other = _model(run_model(run.model, (run.tokens + 1) % 7, outputs=True))
    with pytest.raises(ValueError, match="bounds are of another run or model than frozen"):
        ledger.head_ledger(other, 4, direction, bounds=bounds)
    with pytest.raises(ValueError, match="bounds are of position 4, must be of 3"):
        ledger.head_ledger(model, 3, direction, bounds=bounds)


def test_values_of_found_paths_are_differentiable(make_run, x64):
    run = make_run(3, **FULL)
    model = _model(run)
    direction = run.model.W_U[:, 2]
    found = ledger.head_ledger(model, 3, direction, k=6)
    step = jax.jit(path_mass.head_path_values, static_argnums=(1, 2))
    values = step(model, found.paths, 3, direction)
    np.testing.assert_allclose(values, found.values, rtol=1e-9)
    last = model.tokens.shape[0] - 1
    from_end = step(model, found.paths, -1, direction)
    np.testing.assert_array_equal(from_end, step(model, found.paths, last, direction))
    assert not np.allclose(from_end, values)
    slope = jax.grad(lambda w: step(model, found.paths, 3, w).sum())(direction)
    np.testing.assert_allclose(jnp.vdot(slope, direction), values.sum(), rtol=1e-9)


@pytest.mark.parametrize("find", [ledger.head_ledger, ledger.position_ledger])
def test_what_is_not_finite_is_no_proof(find, make_run):
    model = _model(make_run(2, dtype=jnp.float32))
    with pytest.raises(ValueError, match="direction must be finite"):
        find(model, 0, jnp.ones(6).at[2].set(jnp.nan))
    with pytest.raises(ValueError, match=r"frozen\.W_O must be finite"):
        find(model._replace(W_O=model.W_O.at[1, 0].set(jnp.inf)), 0, jnp.ones(6))


NORMS = {
    "layernorm": {"norm": Norm.layernorm, "biases": True},
    "layernorm_pre": {"norm": Norm.layernorm_pre},
    "rmsnorm": {"norm": Norm.rmsnorm, "biases": True},
    "none": {"biases": True},
}


@pytest.mark.parametrize("by_position", [False, True])
@pytest.mark.parametrize("options", NORMS.values(), ids=NORMS)
def test_paths_through_every_norm_add_up_to_the_models_logits(options, by_position, make_run, x64):
    """A regression: columns of the model's own W_U lack the final norm's gain and centring."""
    run = make_run(3, positions=Positions.learned, **options)
    if options.get("norm") == Norm.rmsnorm:
        gain = NormWeights(jnp.linspace(0.5, 2, 6), None)
        run = run_model(run.model.replace(final_norm=gain), run.tokens, outputs=True)
    logits = np.asarray(run.logits)
    for position in (-1, 2):
        one = ledger.ledger(run, token=4, position=position, k=5, by_position=by_position)
        whole = one.values.sum() + one.remainder + one.bias
        np.testing.assert_allclose(whole, logits[position, 4], atol=1e-9)
        lead = ledger.ledger(run, token=4, minus=1, position=position, by_position=by_position)
        whole = lead.values.sum() + lead.remainder + lead.bias
        np.testing.assert_allclose(whole, logits[position, 4] - logits[position, 1], atol=1e-9)
        assert one.complete and lead.complete


def test_the_largest_path_is_what_its_removal_takes_from_the_logit(make_run, x64):
    """With patterns and scales held, the run without the direct path of a head lacks its value."""
    run = make_run(1, **FULL)
    found = ledger.ledger(run, token=jnp.array(2), position=np.int64(3), k=3)
    values = dict(zip(found.paths, found.values, strict=True))
    for head in range(2):
        keep = jnp.ones((1, 2, 1)).at[0, head].set(0)
        without, _ = forward(run.model, run.tokens, freeze(run.trace)._replace(head_keep=keep))
        np.testing.assert_allclose(
            values[((0, head),)], run.logits[3, 2] - without[3, 2], atol=1e-12
        )


def test_a_ledger_is_printed_as_a_table_of_named_paths(make_run, x64):
    run = make_run(2, **FULL)
    found = ledger.ledger(run, token=2, k=3)
    lines = str(found).splitlines()
    assert lines == repr(found).splitlines() and len(lines) == 3 + 4
    assert len({line.rindex("  ") for line in lines}) == 1  # one column of numbers
    for line, path, value in zip(lines, found.paths, found.values, strict=False):
        name, number = line.rsplit(maxsplit=1)
        assert name.strip() == expansion.path_name(path)
        np.testing.assert_allclose(float(number), value, atol=5e-5)
    assert lines[3].startswith("sum of these 3 paths (the largest)")
    np.testing.assert_allclose(float(lines[-1].split()[-1]), run.logits[-1, 2], atol=5e-5)
    placed = ledger.ledger(run, token=2, k=40, by_position=True)
    named = dict(zip(placed.paths, placed.positions, strict=True))
    assert any(None in sources for sources in named.values()) and "[bias]" in placed.text()
    assert "0.1[" in placed.text()
    short, whole = str(placed).splitlines(), placed.text().splitlines()
    assert len(short) == 20 and len(whole) == len(placed.paths) + 4
    assert [line.split() for line in short[:15]] == [line.split() for line in whole[:15]]
    rest = float(short[15].split()[-1])
    np.testing.assert_allclose(rest, placed.values[15:].sum(), atol=5e-5)
    stopped = ledger.ledger(run, token=2, k=3, budget=1)
    assert "the budget or rounding ended the search" in str(stopped)


def test_a_ledger_inside_jit_says_that_it_searches_on_the_host(make_run):
    run = make_run(1, dtype=jnp.float32)
    message = "ledger searches on the host and must be called outside jit, vmap and grad"
    with pytest.raises(ValueError, match=f"^{message}"):
        jax.jit(lambda run: ledger.ledger(run, token=1).found)(run)
    with pytest.raises(ValueError, match=f"^{message}"):
        jax.jit(lambda _: ledger.ledger(run, token=1).found)(0.0)
    model = _model(run)
    for find in (ledger.head_ledger, ledger.position_ledger):
        with pytest.raises(ValueError, match=f"^{find.__name__} searches on the host"):
            jax.jit(lambda w, find=find: find(model, 0, w).found)(jnp.ones(6))
