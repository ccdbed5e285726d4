"""The frozen model: dressed paths, groups and segments against brute force, and post-LN."""

import math
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import circuitax as cx
from circuitax.circuits.ledger import path_mass
from circuitax.circuits.ledger.ledger import ledger
from circuitax.circuits.path_patching import Edges, patch_paths
from circuitax.circuits.paths import components, expansion, frozen, groups, path_segments
from circuitax.circuits.paths.components import logits_of
from circuitax.circuits.paths.expansion import virtual_ov
from circuitax.circuits.score_terms import score_terms
from circuitax.circuits.weights.composition import composition_scores
from circuitax.circuits.weights.folding import fold_norms
from circuitax.circuits.weights.heads import token_ov, token_qk
from circuitax.kernel import kron
from circuitax.kernel.generate import Sampling
from circuitax.kernel.interventions import Interventions, freeze
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.run import Run, run
from circuitax.kernel.weights import NormWeights

TEXT = [3, 1, 4, 1, 5]
L, H = 2, 2
CASES = {
    "gelu": {"activation": "gelu", "norm": "layernorm", "positions": "learned", "biases": True},
    "relu": {"activation": "relu", "norm": "none", "positions": "none", "biases": True},
    "gated_biases": {"activation": "gelu_tanh", "norm": "layernorm", "gated": True, "biases": True},
    "parallel": {"activation": "gelu_tanh", "norm": "layernorm", "parallel": True, "biases": True},
    "post_norm": {
        "activation": "silu",
        "norm": "rmsnorm",
        "positions": "rotary",
        "gated": True,
        "post_norm": True,
        "qk_norm": True,
    },
    "deeper": {"activation": "relu", "norm": "rmsnorm", "mlp_depth": 3, "biases": True},
    "post_ln": {
        "activation": "gelu_tanh",
        "norm": "layernorm",
        "positions": "learned",
        "biases": True,
        "post_ln": True,
        "final_norm": False,
    },
}
GATES = {
    "relu": lambda z: (z > 0) * 1.0,
    "gelu": lambda z: 0.5 * (1 + np.vectorize(math.erf)(z / math.sqrt(2))),
    "gelu_tanh": lambda z: 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))),
    "silu": lambda z: 1 / (1 + np.exp(-z)),
}


def tiny(name: str, n_ctx: int = 8) -> Model:
    sizes = {"d_vocab": 11, "n_ctx": n_ctx, "n_layers": L, "n_heads": H, "d_model": 8, "d_mlp": 7}
    spec = cx.TransformerSpec(**sizes).replace(**CASES[name])
    model = cx.init(jax.random.key(1), spec.replace(post_norm=False, qk_norm=False), float)
    if spec.post_norm:  # no model that is trained here has them, those that are loaded do
        gain, blocks = NormWeights(jnp.ones((L, 8))), model.blocks
        heads = blocks.attention._replace(q_gain=jnp.ones((L, 4)), k_gain=jnp.ones((L, 4)))
        blocks = blocks._replace(attention=heads, attention_post_norm=gain, mlp_post_norm=gain)
        model = Model(spec, model.W_E, model.W_U, blocks, final_norm=model.final_norm)
    keys = iter(jax.random.split(jax.random.key(2), 100))
    return jax.tree.map(lambda x: x + 0.2 * jax.random.normal(next(keys), x.shape), model)


@pytest.fixture(params=CASES)
def seen(request: pytest.FixtureRequest, x64: None) -> Run:
    compiled = jax.jit(run, static_argnames="outputs")
    return compiled(tiny(request.param), jnp.asarray(TEXT), outputs=True)


class Written:
    """A frozen model in NumPy, one dense matrix for each layer and position, from weights alone.

    Of the run it takes the attention patterns only.
    """

    def __init__(self, seen: Run, gates: str = "frozen") -> None:
        at = jax.tree.map(lambda x: np.asarray(x, np.float64), seen.model)
        self.spec, self.A, self.at = seen.model.spec, np.asarray(seen.trace.patterns), at
        self.gates, d = gates, at.W_E.shape[1]
        x = at.W_E[TEXT]
        if self.spec.positions.in_stream:
            x = x + at.W_pos[: len(TEXT)]
        self.start, self.heads, self.b_O, self.M, self.c = x, [], [], [], []
        self.after: list = []  # in post-LN, the two norms of each layer
        self.read: list = []  # what each MLP reads, before its norm where it has one
        for layer in range(L):
            entering = x
            N, offset = self.read_norm(x, at.blocks.attention_norm, layer)
            OV, constant = [], []
            for h in range(H):
                group = h // (H // at.blocks.attention.W_V.shape[1])
                W_V, W_O = at.blocks.attention.W_V[layer, group], at.blocks.attention.W_O[layer, h]
                b_V = at.blocks.attention.b_V
                bias = offset @ W_V + (0 if b_V is None else b_V[layer, group])
                OV.append(np.einsum("tij,jk->tik", N, W_V @ W_O))
                constant.append(self.A[layer, h] @ np.broadcast_to(bias @ W_O, x.shape))
            b_O = at.blocks.attention.b_O
            b_O = np.zeros(d) if b_O is None else b_O[layer]
            written = self.attend(x, OV, layer) + sum(constant) + b_O
            if at.blocks.attention_post_norm is not None:
                size = np.sqrt((written**2).mean(-1) + self.spec.norm_eps)
                after = at.blocks.attention_post_norm.gain[layer][None] / size[:, None]
                constant = [c * after for c in constant]
                OV = [(maps, after) for maps in OV]
            else:
                OV = [(maps, np.ones((1, 1))) for maps in OV]
            x = x + self.attend(x, OV, layer) + sum(constant) + b_O
            self.heads.append((OV, constant))
            self.b_O.append(np.broadcast_to(b_O, x.shape))
            if self.spec.post_ln:
                N1, o1 = self.norm(x, at.blocks.attention_norm, layer)
                x = np.einsum("ti,tij->tj", x, N1) + o1
            M, c = self.mlp(entering if self.spec.parallel else x, layer)
            read = entering if self.spec.parallel else x
            x = x + np.einsum("ti,tij->tj", read, M) + c
            self.read.append(read)
            self.M.append(M)
            self.c.append(c)
            if self.spec.post_ln:
                N2, o2 = self.norm(x, at.blocks.mlp_norm, layer)
                x = np.einsum("ti,tij->tj", x, N2) + o2
                self.after.append(((N1, o1), (N2, o2)))
        self.final = x

    def attend(self, x: np.ndarray, OV: list, layer: int) -> np.ndarray:
        pairs = [each if isinstance(each, tuple) else (each, np.ones((1, 1))) for each in OV]
        return sum(
            (self.A[layer, h] @ np.einsum("ti,tij->tj", x, maps)) * after
            for h, (maps, after) in enumerate(pairs)
        )

    def read_norm(self, x: np.ndarray, weights, layer: int) -> tuple[np.ndarray, np.ndarray]:
        if self.spec.post_ln:
            return np.broadcast_to(np.eye(x.shape[1]), (len(x), 8, 8)), np.zeros(8)
        return self.norm(x, weights, layer)

    def norm(self, x: np.ndarray, weights, layer: int) -> tuple[np.ndarray, np.ndarray]:
        d = x.shape[1]
        if self.spec.norm == "none":
            return np.broadcast_to(np.eye(d), (len(x), d, d)), np.zeros(d)
        C = np.eye(d) - (1 / d if self.spec.norm.centres else 0)
        size = np.sqrt(((x @ C) ** 2).mean(-1) + self.spec.norm_eps)
        N = C[None] * weights.gain[layer] / size[:, None, None]
        return N, np.zeros(d) if weights.offset is None else weights.offset[layer]

    def mlp(self, x: np.ndarray, layer: int) -> tuple[np.ndarray, np.ndarray]:
        w, g = self.at.blocks.mlp, GATES[self.spec.activation]
        w = jax.tree.map(lambda leaf: leaf[layer], w)
        N, offset = self.read_norm(x, self.at.blocks.mlp_norm, layer)
        read = np.einsum("ti,tij->tj", x, N) + offset
        zero = np.zeros(w.W_in.shape[1])
        b_in = zero if w.b_in is None else w.b_in
        z = read @ w.W_in + b_in
        if w.W_gate is not None:
            b_gate = zero if w.b_gate is None else w.b_gate
            opened = read @ w.W_gate + b_gate
            sides = [(w.W_in, b_in, opened * g(opened)), (w.W_gate, b_gate, z * g(opened))]
            sides = sides[:1] if self.gates == "frozen" else sides
        else:
            sides = [(w.W_in, b_in, g(z))]
        each = [(np.einsum("tij,jm,tm->tim", N, W, f), (offset @ W + b) * f) for W, b, f in sides]
        hidden, c = (sum(part) / len(each) for part in zip(*each, strict=True))
        for i in range(self.spec.mlp_depth - 1):
            z = (z * g(z)) @ w.W_hidden[i] + w.b_hidden[i]
            hidden = np.einsum("tim,mn,tn->tin", hidden, w.W_hidden[i], g(z))
            c = (c @ w.W_hidden[i] + w.b_hidden[i]) * g(z)
        M, c = hidden @ w.W_out, c @ w.W_out + (0 if w.b_out is None else w.b_out)
        if self.at.blocks.mlp_post_norm is not None:
            out = np.einsum("ti,tij->tj", x, M) + c
            size = np.sqrt((out**2).mean(-1) + self.spec.norm_eps)
            after = self.at.blocks.mlp_post_norm.gain[layer][None] / size[:, None]
            M, c = M * after[:, None, :], c * after
        return M, c

    def position_paths(self, position: int) -> dict[tuple, np.ndarray]:
        """Every dressed path by its heads and the positions they read; None is a head's bias."""
        n, d = self.start.shape
        direct, placed = self.start, {}
        for layer, ((OV, constants), M) in enumerate(zip(self.heads, self.M, strict=True)):
            X, new = M + np.eye(d), {}
            for h, (maps, after) in enumerate(OV):
                after = np.broadcast_to(after, (n, after.shape[1]))
                for t in range(n):
                    if np.abs(constants[h][t]).any():
                        new[((layer, h),), (None,), t] = constants[h][t]
                    for s in range(t + 1):
                        moved = self.A[layer, h, t, s] * (direct[s] @ maps[s]) * after[t]
                        new[((layer, h),), (s,), t] = moved
                    for (path, sources, s), x in placed.items():
                        if s <= t:
                            moved = self.A[layer, h, t, s] * (x @ maps[s]) * after[t]
                            new[(*path, (layer, h)), (*sources, s), t] = moved
            b_O, parallel = self.b_O[layer], self.spec.parallel
            read = direct if parallel else direct + b_O
            direct = np.einsum("ti,tij->tj", read, X) + self.c[layer] + (b_O if parallel else 0)
            placed = {key: x @ X[key[2]] for key, x in placed.items()}
            placed |= {key: x if parallel else x @ X[key[2]] for key, x in new.items()}
        found = {key[:2]: x for key, x in placed.items() if key[2] == position}
        return found | {((), ()): direct[position]}

    def every_path(self) -> Iterator[tuple[tuple, tuple, np.ndarray]]:
        """Every choice of heads and MLPs with its part of the final stream, one by one."""
        found = [((), (), self.start)]
        for layer in range(L):
            before, new = list(found), [((), (), self.b_O[layer])]
            for h, (maps, after) in enumerate(self.heads[layer][0]):
                new.append((((layer, h),), (), self.heads[layer][1][h]))
                for path, mlps, x in before:
                    moved = self.A[layer, h] @ np.einsum("ti,tij->tj", x, maps) * after
                    new.append(((*path, (layer, h)), mlps, moved))
            both = self.normed(before + new, layer, 0)
            read = before if self.spec.parallel else both
            found = [*both, ((), (layer,), self.c[layer])]
            for path, mlps, x in read:
                through = np.einsum("ti,tij->tj", x, self.M[layer])
                found.append((path, (*mlps, layer), through))
            found = self.normed(found, layer, 1)
        return iter(found)

    def normed(self, parts: list, layer: int, which: int) -> list:
        """In post-LN every path behind a norm, whose offset is one more that passed nothing."""
        if not self.after:
            return parts
        N, offset = self.after[layer][which]
        moved = [(path, mlps, np.einsum("ti,tij->tj", x, N)) for path, mlps, x in parts]
        return [*moved, ((), (), np.broadcast_to(offset, self.start.shape))]


def close(found, expected) -> None:
    expected = np.asarray(expected)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("gates", ["frozen", "shared"])
def test_every_path_of_heads_is_the_sum_over_its_mlps(seen: Run, gates: str) -> None:
    """Each dressed path against all undressed ones through its heads, written out one by one."""
    written = Written(seen, gates)
    close(seen.trace.streams[-1], written.final)
    by_heads: dict[tuple, np.ndarray] = {}
    for path, _, stream in written.every_path():
        by_heads[path] = by_heads.get(path, 0) + stream
    linear = frozen.frozen_model(seen, gates=gates)
    streams = jax.jit(expansion.path_streams)(linear)
    names = list(expansion.all_paths(L, H))
    assert set(by_heads) == set(names)
    for path, stream in zip(names, streams, strict=True):
        np.testing.assert_allclose(stream, by_heads[path], atol=1e-12 * np.abs(streams).max())
    orders = jax.jit(expansion.order_streams)(linear)
    subsets = expansion.layer_subset_streams(linear)
    for order in range(L + 1):
        want = sum(stream for path, stream in by_heads.items() if len(path) == order)
        close(orders[order], want)
    want = sum(stream for path, stream in by_heads.items() if [at for at, _ in path] == [1])
    close(subsets[2], want)
    for path in names:
        one = expansion.path_stream(linear, path)
        np.testing.assert_allclose(one, by_heads[path], atol=1e-12 * np.abs(streams).max())


def test_sources_sum_to_the_whole_and_the_absolute_sum_is_beside_it(seen: Run) -> None:
    linear = frozen.frozen_model(seen)
    kinds = ("tokens", "positions", "biases", "mlps")
    parts = [expansion.path_streams(frozen.with_source(linear, kind)).sum(axis=0) for kind in kinds]
    close(sum(parts), seen.trace.streams[-1])
    found = expansion.expand(seen)
    close(found.terms.sum(axis=0) + found.bias[None], seen.logits)
    close(found.absolute, np.abs(np.asarray(found.terms)).sum(axis=0))
    assert "absolute sums" in repr(found)


@pytest.mark.parametrize("gates", ["frozen", "shared"])
def test_the_frozen_forward_pass_is_affine_and_its_slope_is_the_dressed_model(
    seen: Run, gates: str
) -> None:
    """``forward`` under `freeze` is linear in what is added, and moves as the dressed paths say."""
    edit = freeze(seen.trace, gates)
    change = jax.random.normal(jax.random.key(3), (L + 1, len(TEXT), 8))

    @jax.jit
    def stream(add, edit):
        return run(seen.model, seen.tokens, edit._replace(stream_add=add)).trace.streams[-1]

    base = stream(jnp.zeros_like(change), edit)
    close(base, seen.trace.streams[-1])
    once, twice = stream(change, edit) - base, stream(-2 * change, edit) - base
    np.testing.assert_allclose(twice, -2 * once, atol=1e-11 * np.abs(once).max())
    live = stream(change, Interventions()) - base
    assert np.abs(live - once).max() > 1e-3 * np.abs(once).max()
    first = stream(change.at[1:].set(0), edit) - base
    linear = frozen.with_source(frozen.frozen_model(seen, gates=gates), "tokens")
    moved = linear._replace(tokens=change[0])
    close(first, expansion.path_streams(moved).sum(axis=0))


def test_groups_are_sums_of_single_paths(seen: Run) -> None:
    """By source, by last head, both, and single one-head paths, each against enumeration."""
    linear, position, token, minus = frozen.frozen_model(seen), 3, 7, 2
    direction = linear.read_out.W_U[:, token] - linear.read_out.W_U[:, minus]
    found = jax.jit(groups.path_groups)(linear, position, direction)
    w = direction if linear.read_out.scale is None else direction / linear.read_out.scale[position]
    want = np.zeros(found.by_head.shape)
    for s in range(-1, len(TEXT)):
        if s < 0:
            bare = frozen.with_source(linear, "biases")._replace(positions=None)
        else:
            at = jnp.zeros_like(linear.tokens).at[s].set(linear.embedding[s])
            bare = frozen.with_source(linear, "tokens")._replace(tokens=at)
        streams = expansion.path_streams(bare)
        for path, stream in zip(expansion.all_paths(L, H), streams, strict=True):
            row = 1 + H * path[-1][0] + path[-1][1] if path else 0
            value = float(stream[position] @ w)
            want[row, 1 + s] += value
            if len(path) == 1 and s >= 0:
                np.testing.assert_allclose(found.one_head[*path[0], s], value, atol=1e-12)
    close(found.by_head, want)
    lead = float(seen.logits[position, token] - seen.logits[position, minus])
    b_U = linear.read_out.b_U
    bias = 0.0 if b_U is None else float(b_U[token] - b_U[minus])
    np.testing.assert_allclose(found.by_source.sum() + bias, lead, rtol=1e-11)
    np.testing.assert_allclose(found.by_last.sum(), found.by_source.sum(), rtol=1e-11)


def test_a_stretch_of_a_path_opens_to_mlps_and_units(seen: Run) -> None:
    """Each split written out in NumPy from the weights; a unit by setting its gate to 0."""
    linear, t, s = frozen.frozen_model(seen), 3, 1
    direction = linear.read_out.W_U[:, 7] - linear.read_out.W_U[:, 2]
    if seen.model.spec.post_ln:
        return
    scale = linear.read_out.scale
    w = np.asarray(direction if scale is None else direction / scale[t])
    written, eye = Written(seen), np.eye(8)
    every = {key: float(x @ w) for key, x in written.position_paths(t).items()}
    maps, after = written.heads[0][0][1]
    y = written.A[0, 1, t, s] * (written.start[s] @ maps[s]) * np.broadcast_to(after, (5, 8))[t]
    parallel, (M0, M1) = seen.model.spec.parallel, (written.M[0][t], written.M[1][t])
    first = np.zeros_like(M0) if parallel else M0
    found = path_segments.opened_segment(linear, ((0, 1),), (s,), 1, t, direction)
    np.testing.assert_allclose(found.whole, every[((0, 1),), (s,)], rtol=1e-10)
    last = [y @ first @ w, y @ (eye + first) @ M1 @ w]
    through = [y @ first @ (eye + M1) @ w, last[1]]
    assert found.layers.tolist() == [0, 1]
    close(found.last, last)
    close(found.through, through)
    np.testing.assert_allclose(found.past, y @ w, rtol=1e-10)
    np.testing.assert_allclose(found.absolute, abs(y @ w) + np.abs(last).sum(), rtol=1e-10)
    name, value = found.largest_units(1)[0]
    acting, unit = (int(part) for part in name.removeprefix("mlp ").split(".n"))
    assert abs(value) == np.abs(found.units).max() and "absolute sum" in repr(found)
    # A unit is what the path loses when its gate is 0 there; also before a head, with constants.
    for (path, sources), stretch, layer, place in (
        ((((0, 1),), (s,)), 1, acting, t),
        ((((1, 0),), (2,)), 0, 0, 2),
    ):
        found = path_segments.opened_segment(linear, path, sources, stretch, t, direction)
        np.testing.assert_allclose(found.whole, every[path, sources], rtol=1e-10)
        at = linear.maps
        if at.hidden_factors is None:
            held = at._replace(factors=at.factors.at[layer, :, place, unit].set(0))
        else:
            held = at._replace(hidden_factors=at.hidden_factors.at[layer, -1, place, unit].set(0))
        without = linear._replace(maps=held)
        left = path_mass.position_path_values(without, (path,), (sources,), t, direction)[0]
        share = found.units[list(found.layers).index(layer), unit]
        np.testing.assert_allclose(found.whole - left, share, atol=1e-12)
    x = written.start[2] + (0 if parallel else written.b_O[0][2])
    maps, after = written.heads[1][0][0]
    behind = written.A[1, 0, t, 2] * np.broadcast_to(after, (5, 8))[t]
    end = maps[2] @ (behind * ((eye if parallel else eye + M1) @ w))
    np.testing.assert_allclose(found.last, [x @ written.M[0][2] @ end], rtol=1e-9)


def test_flow_is_conserved_from_layer_to_layer(seen: Run) -> None:
    """At every cut, stream times direction and the biases still to come are the logit.

    And within a layer, neurons, the constant of the MLP and what passes it by.
    """
    linear, position = frozen.frozen_model(seen), 4
    direction = linear.read_out.W_U[:, 5]
    back = groups.carried_back(linear, position, direction)
    whole = float(seen.trace.streams[-1, position] @ back.entering[-1, position])
    bare = frozen.with_source(linear, "tokens")._replace(tokens=linear.embedding)
    want = float(expansion.path_streams(bare).sum(axis=0)[position] @ back.entering[-1, position])
    np.testing.assert_allclose((linear.embedding * back.entering[0]).sum(), want, rtol=1e-10)
    flows = groups.neuron_flows(seen, linear, position, direction)
    for layer in range(L):
        written = np.asarray(seen.trace.mlp_outputs[layer])
        b_out = seen.model.blocks.mlp.b_out
        b_out = 0 if b_out is None else np.asarray(b_out)[layer]
        if seen.trace.scales.mlp_post is not None:
            b_out = b_out / np.asarray(seen.trace.scales.mlp_post)[layer][:, None]
        carried = np.asarray(back.entering[layer + 1])
        if seen.model.spec.post_ln:
            N, _ = Written(seen).after[layer][1]
            carried = np.einsum("tj,tij->ti", carried, N)
        through = ((written - b_out) * carried).sum(axis=1)
        np.testing.assert_allclose(flows[layer].sum(axis=1), through, atol=1e-10 * abs(whole))
    # A unit's flow is what its removal under frozen gates takes from the logit.
    silent = seen.model.blocks.mlp.W_out.at[1, 3].set(0)
    mlp = seen.model.blocks.mlp._replace(W_out=silent)
    without = seen.model.replace(blocks=seen.model.blocks._replace(mlp=mlp))
    edited = run(without, seen.tokens, freeze(seen.trace)).trace.streams[-1, position]
    lost = whole - float(edited @ back.entering[-1, position])
    np.testing.assert_allclose(flows[1, :, 3].sum(), lost, atol=1e-9 * abs(whole))


@pytest.mark.parametrize("layer", range(L))
def test_a_pre_activation_splits_by_source_and_last_head(seen: Run, layer: int) -> None:
    """Against the pre-activations of NumPy, and against single paths to the stream read there."""
    spec, position, unit = seen.model.spec, 3, 5
    linear = frozen.frozen_model(seen)
    x = Written(seen).read[layer]
    w = jax.tree.map(lambda leaf: np.asarray(leaf[layer]), seen.model.blocks.mlp)
    norm = seen.model.blocks.mlp_norm
    if spec.norm != "none" and not spec.post_ln:
        x = x - (x.mean(axis=1, keepdims=True) if spec.norm.centres else 0)
        x = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + spec.norm_eps)
        x = x * np.asarray(norm.gain)[layer]
        x = x + (0 if norm.offset is None else np.asarray(norm.offset)[layer])
    W, b = (w.W_in, w.b_in) if w.W_gate is None else (w.W_gate, w.b_gate)
    want = x @ W + (0 if b is None else b)
    cut = groups.cut_before_gates(seen, linear, layer)
    b = 0 if cut.read_out.b_U is None else cut.read_out.b_U[None]
    single = logits_of(expansion.path_streams(cut), cut.read_out)
    close(single.sum(axis=0) + b, want)
    found = groups.gate_attribution(seen, linear, layer, unit, position)
    np.testing.assert_allclose(found.by_source.sum() + found.bias, want[position, unit], atol=1e-12)
    total = found.by_last.sum() + found.direct + found.bias
    np.testing.assert_allclose(total, want[position, unit], atol=1e-12)
    by_group = groups.path_groups(cut, position, cut.read_out.W_U[:, unit])
    np.testing.assert_allclose(found.by_last.ravel(), by_group.by_last[1:], atol=1e-12)
    rolled = np.roll(by_group.by_source, -1)
    np.testing.assert_allclose(found.by_source, rolled, atol=1e-12)


@pytest.fixture
def post_ln_seen(make_run, x64):
    """A run of two post-LN layers without MLPs, with every bias, gain and offset."""
    model = make_run(2, biases=True, norm=Norm.layernorm).model
    model = model.replace(final_norm=None).with_options(post_ln=True, final_norm=False)
    return run(model, jnp.asarray([1, 4, 2, 6, 4]), outputs=True)


def test_paths_are_dense_kronecker_matrices_that_the_norms_multiply(post_ln_seen):
    """Each path a product of ``kron(A, W^T)`` and ``kron(diag(1/s), ((I - 1/d) diag(g))^T)``.

    The patterns are the run's; divisors are computed here. The direct path passes both norms.
    """
    model, A = jax.tree.map(np.asarray, post_ln_seen.model), np.asarray(post_ln_seen.trace.patterns)
    heads, norms, (n, d) = model.blocks.attention, model.blocks.attention_norm, (5, 6)
    OV = heads.W_V @ heads.W_O
    centre, x = np.eye(d) - 1 / d, model.W_E[np.asarray(post_ln_seen.tokens)]
    direct, found = np.eye(n * d), {(): np.eye(n * d)}
    for layer in range(2):
        added = x + heads.b_O[layer]
        for h in range(2):
            added = added + A[layer, h] @ (
                x @ OV[layer, h] + heads.b_V[layer, h] @ heads.W_O[layer, h]
            )
        size = np.sqrt(added.var(axis=1) + post_ln_seen.model.spec.norm_eps)
        norm = np.kron(np.diag(1 / size), (centre * norms.gain[layer]).T)
        moved = {
            (*path, (layer, h)): norm @ np.kron(A[layer, h], OV[layer, h].T) @ before
            for path, before in found.items()
            for h in range(2)
        }
        found = {path: norm @ before for path, before in found.items()} | moved
        direct = norm @ direct
        x = (added @ centre) / size[:, None] * norms.gain[layer] + norms.offset[layer]
    np.testing.assert_allclose(x @ model.W_U + model.b_U, post_ln_seen.logits, atol=1e-12)
    linear = frozen.with_source(frozen.frozen_model(post_ln_seen), "tokens")
    streams = expansion.path_streams(linear)
    np.testing.assert_allclose(found[()], direct, atol=1e-14)
    assert set(found) == set(expansion.all_paths(2, 2))
    for path, dense in found.items():
        want = (dense @ np.asarray(linear.tokens).ravel()).reshape(n, d)
        np.testing.assert_allclose(streams[expansion.path_index(path, 2)], want, atol=1e-12)
        term = kron.act(expansion.path_term(linear, path), linear.tokens)
        np.testing.assert_allclose(term, want @ model.W_U, atol=1e-12)
        np.testing.assert_allclose(expansion.path_stream(linear, path), want, atol=1e-12)


def test_paths_and_biases_close_and_under_vmap(post_ln_seen):
    found = jax.jit(expansion.expand)(post_ln_seen)
    np.testing.assert_allclose(found.remainder, 0, atol=1e-12)
    texts = jnp.stack([post_ln_seen.tokens, post_ln_seen.tokens[::-1]])
    both = jax.vmap(lambda text: expansion.expand(run(post_ln_seen.model, text)).terms)(texts)
    np.testing.assert_allclose(both[0], found.terms, atol=1e-12)
    whole = sum(
        expansion.path_streams(frozen.with_source(frozen.frozen_model(post_ln_seen), source)).sum(
            axis=0
        )
        for source in ("tokens", "positions", "biases")
    )
    np.testing.assert_allclose(whole, post_ln_seen.trace.streams[-1], atol=1e-12)


def test_paths_of_the_first_gpt_close(x64):
    """A tiny `openai-gpt` of transformers, MLPs dressed: 125 paths and the absolute sum."""
    family = Path(__file__).parents[2] / "fixtures" / "families" / "openai_gpt"
    reference = np.load(family / "reference.npz")
    model = cx.load_pretrained(family, dtype=jnp.float64)
    found = cx.expand(run(model, jnp.asarray(reference["tokens"][0]), outputs=True))
    assert found.terms.shape[0] == 125
    want = reference["logits"][0]
    np.testing.assert_allclose(found.terms.sum(axis=0), want, atol=1e-9 * np.abs(want).max())


def test_a_cache_and_frozen_values_give_the_same_logits(post_ln_seen):
    again = run(post_ln_seen.model, post_ln_seen.tokens, freeze(post_ln_seen.trace))
    np.testing.assert_allclose(again.logits, post_ln_seen.logits, atol=1e-12)
    greedy = Sampling(temperature=0.0)
    text = cx.generate(
        post_ln_seen.model, post_ln_seen.tokens, 3, key=jax.random.key(0), sampling=greedy
    )
    for end in range(5, 8):
        assert int(run(post_ln_seen.model, text[:end]).logits[-1].argmax()) == int(text[end])


def test_analyses_that_add_up_the_stream_refuse_it(post_ln_seen):
    """In one line that names the option, wherever parts of the stream would not sum to it."""
    model, tokens = post_ln_seen.model, post_ln_seen.tokens
    ones = jnp.ones((2, 2))
    direction = jnp.ones((5, 6))
    edges = Edges(ones, ones, ones, jnp.ones(()))
    for call in (
        lambda: components.components_of(post_ln_seen),
        lambda: components.component_logits(post_ln_seen),
        lambda: components.attribute(post_ln_seen, tokens),
        lambda: components.attribute_sources(post_ln_seen, direction),
        lambda: score_terms(post_ln_seen, 1, 0),
        lambda: patch_paths(post_ln_seen, direction, edges),
        lambda: ledger(post_ln_seen, token=1, position=4, k=2),
        lambda: frozen.frozen_model(post_ln_seen, mlps="sources"),
        lambda: fold_norms(model),
        lambda: composition_scores(model),
        lambda: token_qk(model),
        lambda: token_ov(model),
        lambda: virtual_ov(model, 0, 1),
    ):
        with pytest.raises(ValueError, match=r"^spec\.post_ln=True must be False for "):
            call()
