"""A model as a linear map of its heads' inputs: patterns and norm scales taken from one run.

``N(x) = diag(1/σ) x (I - 1 1ᵀ/d) diag(γ) + β`` is a Kronecker term and an offset. The term scales
all that is on the stream, the skip path too; the offset enters there like a bias.

With both frozen, attention of layer l is ``x ↦ x + Σ_h (A^h ⊗ W_OV^h) x + const``, and the logits
multiply out into paths. Everything that expands, ranks or counts paths starts from a `FrozenModel`.

An MLP becomes affine when the factor g of each hidden unit ``z g(z)`` is held too. The stream is
then *dressed*: between two heads all MLPs of a position act together, ``x ↦ x Π_l (I + M_l)``, and
paths run through heads from the tokens to the logits. With ``mlps="sources"`` an MLP is not held:
what it wrote in this run is one more source of paths, no path runs through it, and how it depends
on the tokens is not split.

In post-LN a norm follows each addition, ``x ↦ N(x + f(x))``. Its divisor σ_t held, it is one more
Kronecker term, ``diag(1/σ) ⊗ (I - 1 1ᵀ/d) diag(γ)``, by which everything on the stream is
multiplied, the direct path too, and an offset that enters there like a bias.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.circuits.paths.components import ReadOut, read_out_of
from circuitax.circuits.weights.folding import check_pre_ln, fold_read, over_heads
from circuitax.kernel.attention import per_head
from circuitax.kernel.chain import chain_of
from circuitax.kernel.interventions import TRACED, check_gates
from circuitax.kernel.kron import Kron
from circuitax.kernel.mlp import Gates
from circuitax.kernel.norm import Norm
from circuitax.kernel.run import Run, unedited
from circuitax.kernel.weights import MLPWeights


class FrozenNorms(NamedTuple):
    """The norms after additions of post-LN, ``x ↦ (x - centre · mean x) / scale · gain + offset``.

    Attributes:
        centre: 1 where the norm subtracts the mean, else 0.
        scale: Divisors, as the run had them.
        gain: Factors on the entries of the stream.
        offset: What the norm adds.
    """

    centre: Float[Array, "n_layers parts"]
    scale: Float[Array, "n_layers parts n_ctx"]
    gain: Float[Array, "n_layers parts d_model"]
    offset: Float[Array, "n_layers parts d_model"]

    def apply(
        self, layer: int | Int[Array, ""], part: int, x: Float[Array, "*paths n_ctx d_model"]
    ) -> Float[Array, "*paths n_ctx d_model"]:
        """One norm on any stack of streams, without its offset."""
        mean = self.centre[layer, part] * jnp.mean(x, axis=-1, keepdims=True)
        factor = self.gain[layer, part][None, :] / self.scale[layer, part][:, None]
        return (x - mean) * jnp.broadcast_to(factor, x.shape)

    def at(self, positions: Int[Array, " n"]) -> "FrozenNorms":
        """The norms at these positions, of which some may be named several times."""
        return self._replace(scale=self.scale[..., positions])

    def term(self, layer: int, part: int) -> Kron:
        """One norm without its offset, ``diag(1/σ) ⊗ (I - 1 1ᵀ/d) diag(γ)``."""
        eye = jnp.eye(self.gain.shape[-1], dtype=self.gain.dtype)
        centred = eye - self.centre[layer, part] / eye.shape[0]
        feature = chain_of(centred * self.gain[layer, part][None, :])
        return Kron(jnp.diag(1 / self.scale[layer, part]), feature)

    def carried_back(
        self, part: int, directions: Float[Array, "n_layers n_ctx d_model"]
    ) -> Float[Array, "n_layers n_ctx d_model"]:
        """Directions behind one norm of every layer as directions in front of it."""
        before = directions * self.gain[:, part, None, :] / self.scale[:, part, :, None]
        mean = jnp.mean(before, axis=-1, keepdims=True)
        return before - self.centre[:, part, None, None] * mean


def frozen_norms(run: Run) -> FrozenNorms | None:
    """The norms after additions of a run, their divisors held; None in pre-LN."""
    spec, blocks, scales = run.model.spec, run.model.blocks, run.trace.scales
    if not spec.post_ln or scales.attention is None:
        return None
    pairs = [(blocks.attention_norm, scales.attention)]
    if scales.mlp is not None:
        pairs.append((blocks.mlp_norm, scales.mlp))
    plain = jnp.zeros((spec.n_layers, spec.d_model), scales.attention.dtype)
    gains = [plain + 1 if norm is None else norm.gain for norm, _ in pairs]
    offsets = [plain if norm is None or norm.offset is None else norm.offset for norm, _ in pairs]
    centre = jnp.full((spec.n_layers, len(pairs)), float(spec.norm.centres), plain.dtype)
    stacked = (jnp.stack(each, axis=1) for each in ([scale for _, scale in pairs], gains, offsets))
    return FrozenNorms(centre, *stacked)


def through_norm(
    norms: FrozenNorms,
    layer: int | Int[Array, ""],
    part: int,
    streams: Float[Array, "*paths n_ctx d_model"],
    written: Float[Array, "*others n_ctx d_model"],
    constants: bool,
) -> tuple[Float[Array, "*paths n_ctx d_model"], Float[Array, "*others n_ctx d_model"]]:
    """Streams that pass by, and writes of heads, through one norm after an addition."""
    streams = norms.apply(layer, part, streams)
    if constants:
        streams = streams.at[(0,) * (streams.ndim - 2)].add(norms.offset[layer, part][None, :])
    return streams, norms.apply(layer, part, written)


class FrozenMLPs(NamedTuple):
    """The MLPs of one text as affine maps ``x ↦ x M + c``, one for each layer and position.

    ``M = Σ_i W_in[i] diag(factors[i]) W_out``: one term, two where both sides of a gated MLP share.
    Norms are folded, so that an MLP reads the bare stream.
    """

    W_in: Float[Array, "n_layers sides d_model d_mlp"]
    """``W_in``; and ``W_gate``, where it shares."""
    factors: Float[Array, "n_layers sides n_ctx d_mlp"]
    """Gates over norm scales."""
    W_out: Float[Array, "n_layers d_mlp d_model"]
    constant: Float[Array, "n_layers n_ctx d_model"]
    """Constant of the biases of an MLP and the offset of its norm, at each position."""
    after_heads: Float[Array, ""]
    """1 where an MLP reads what the heads of its layer wrote; 0 in the parallel form."""
    W_hidden: Float[Array, "n_layers n_extra d_mlp d_mlp"] | None = None
    """Maps between hidden layers of deeper MLPs."""
    hidden_factors: Float[Array, "n_layers n_extra n_ctx d_mlp"] | None = None


class FrozenModel(NamedTuple):
    """The linear model of one text; norms are folded, so that a head reads the bare stream."""

    tokens: Float[Array, "n_ctx d_model"]
    """``W_E[tokens]``."""
    positions: Float[Array, "n_ctx d_model"] | None
    """Sum that a position scheme added to the stream at the start; None without one."""
    A: Float[Array, "n_layers n_heads dest src"]
    """Patterns divided by the norm scale of the source, ``A_ts / σ_s``; and by that of the
    destination where a norm follows attention."""
    W_V: Float[Array, "n_layers n_heads d_model d_value"]
    W_O: Float[Array, "n_layers n_heads d_value d_model"]
    b_V: Float[Array, "n_layers n_heads dest d_value"] | None
    """Constant of a head's value bias and norm offset at each destination."""
    b_O: Float[Array, "n_layers d_model"] | None
    read_out: ReadOut
    mlps: Float[Array, "n_layers n_ctx d_model"] | None = None
    """Output of the MLP of each layer, with ``mlps="sources"``: constant like biases."""
    maps: FrozenMLPs | None = None
    """The MLPs as maps, by which the stream is dressed; None with ``mlps="sources"``."""
    norms: FrozenNorms | None = None
    """The norms after additions; None in pre-LN."""

    @property
    def embedding(self) -> Float[Array, "n_ctx d_model"]:
        """Input of layer 0."""
        return self.tokens if self.positions is None else self.tokens + self.positions


MLPS = ("dressed", "sources")


def frozen_model(run: Run, *, mlps: str = "dressed", gates: str = "frozen") -> FrozenModel:
    """The linear model of one run: its patterns, norm scales and gates are frozen.

    Source: framework paper, "freezing attention patterns"; S0 Remark 20; for MLPs
        docs/methods/mlps.md; for post-LN docs/methods/path-expansion.md.
    """
    if mlps not in MLPS:
        raise ValueError(f"mlps={mlps!r} must be 'dressed' or 'sources'")
    if mlps == "sources":
        check_pre_ln(unedited(run, TRACED).model, 'paths with mlps="sources" and the path ledger')
    check_gates(gates)
    run = jax.tree.map(jnp.asarray, unedited(run, TRACED))  # the weights may be NumPy arrays
    spec, blocks, trace = run.model.spec, run.model.blocks, run.trace
    for name in ("mlp_outputs", "gates"):
        if blocks.mlp is not None and getattr(trace, name) is None:
            raise ValueError(
                f"run.trace.{name} is None: paths of a model with MLPs need what these wrote and "
                "their gates, make the run with outputs=True"
            )
    heads = per_head(run.model)
    W_V, b_V = fold_read(heads.W_V, heads.b_V, spec.read_norm, over_heads(blocks.attention_norm))
    A = trace.patterns
    if b_V is not None:
        b_V = A.sum(axis=-1)[..., None] * b_V[:, :, None, :]
    if spec.read_norm != Norm.none and trace.scales.attention is not None:
        A = A / trace.scales.attention[:, None, None, :]
    if trace.scales.attention_post is not None:
        after = trace.scales.attention_post[:, None, :, None]
        A, b_V = A / after, None if b_V is None else b_V / after
    maps = None
    if mlps == "dressed" and blocks.mlp is not None and trace.gates is not None and spec.n_layers:
        maps = _frozen_mlps(run, blocks.mlp, trace.gates, gates)
    embedded = run.model.W_E[run.tokens]
    in_stream = spec.positions.in_stream
    return FrozenModel(
        embedded,
        trace.streams[0] - embedded if in_stream else None,
        A,
        W_V,
        heads.W_O,
        b_V,
        heads.b_O,
        read_out_of(run),
        trace.mlp_outputs if mlps == "sources" else None,
        maps,
        frozen_norms(run),
    )


def _frozen_mlps(run: Run, mlp: MLPWeights, held: Gates, gates: str) -> FrozenMLPs:
    """The MLPs of a run, norms before and after them folded."""
    spec, blocks, scales = run.model.spec, run.model.blocks, run.trace.scales
    sides = [(mlp.W_in, mlp.b_in, held.values[:, 0])]
    if gates == "shared" and mlp.W_gate is not None and held.gates is not None:
        sides = [
            (mlp.W_in, mlp.b_in, 0.5 * held.values[:, 0]),
            (mlp.W_gate, mlp.b_gate, 0.5 * held.gates),
        ]
    folded = [(fold_read(W, b, spec.read_norm, blocks.mlp_norm), g) for W, b, g in sides]
    hidden = jnp.zeros_like(held.values[:, 0])
    for (_, b), g in folded:
        hidden = hidden if b is None else hidden + g * b[:, None, :]
    W_out, b_out, factors = mlp.W_out, mlp.b_out, held.values[:, 1:]
    between = () if mlp.W_hidden is None else tuple(jnp.moveaxis(mlp.W_hidden, 1, 0))
    for i, W in enumerate(between):
        hidden = hidden @ W
        if mlp.b_hidden is not None:
            hidden = hidden + mlp.b_hidden[:, i, None, :]
        hidden = hidden * factors[:, i]
    if blocks.mlp_post_norm is not None:
        gain = blocks.mlp_post_norm.gain
        W_out = W_out * gain[:, None, :]
        b_out = None if b_out is None else b_out * gain
    constant = hidden @ W_out
    if b_out is not None:
        constant = constant + b_out[:, None, :]
    read = jnp.stack([g for _, g in folded], axis=1)
    if spec.read_norm != Norm.none and scales.mlp is not None:
        read = read / scales.mlp[:, None, :, None]
    if scales.mlp_post is not None:
        constant = constant / scales.mlp_post[..., None]
        read = read / scales.mlp_post[:, None, :, None]
    return FrozenMLPs(
        jnp.stack([W for (W, _), _ in folded], axis=1),
        read,
        W_out,
        constant,
        jnp.asarray(0.0 if spec.parallel else 1.0, W_out.dtype),
        mlp.W_hidden,
        factors if factors.shape[1] else None,
    )


def with_source(frozen: FrozenModel, source: str) -> FrozenModel:
    """The model with one kind of source, the others set to 0; the sum over kinds is the whole."""
    if source != "mlps":
        frozen = frozen._replace(mlps=None)
    if source != "biases":
        frozen = frozen._replace(b_V=None, b_O=None, read_out=frozen.read_out._replace(b_U=None))
        if frozen.maps is not None:
            silent = jnp.zeros_like(frozen.maps.constant)
            frozen = frozen._replace(maps=frozen.maps._replace(constant=silent))
        if frozen.norms is not None:
            silent = jnp.zeros_like(frozen.norms.offset)
            frozen = frozen._replace(norms=frozen.norms._replace(offset=silent))
    if source != "positions":
        frozen = frozen._replace(positions=None)
    if source != "tokens":
        frozen = frozen._replace(tokens=jnp.zeros_like(frozen.tokens))
    return frozen


def head_writes(
    frozen: FrozenModel,
    layer: int | Int[Array, ""],
    streams: Float[Array, "*paths n_ctx d_model"],
    summed: bool = False,
) -> Float[Array, "*out n_ctx d_model"]:
    """``A^h x W_V^h W_O^h`` of one layer's heads on any stack of streams, without biases.

    Returns:
        ``[n_heads, *paths, n_ctx, d_model]``, or ``[*paths, n_ctx, d_model]`` when summed.
    """
    values = jnp.einsum("...sd,hdk->h...sk", streams, frozen.W_V[layer])
    mixed = jnp.einsum("hts,h...sk->h...tk", frozen.A[layer], values)
    target = "...td" if summed else "h...td"
    return jnp.einsum(f"h...tk,hkd->{target}", mixed, frozen.W_O[layer])


def head_constants(
    frozen: FrozenModel, layer: int | Int[Array, ""]
) -> Float[Array, "n_heads n_ctx d_model"]:
    """Outputs of the heads of one layer due to their own biases, ``A 1 b_V W_O``."""
    if frozen.b_V is None:
        n_heads, d_model = frozen.W_O.shape[1], frozen.W_O.shape[3]
        return jnp.zeros((n_heads, frozen.tokens.shape[0], d_model), frozen.tokens.dtype)
    return jnp.einsum("htk,hkd->htd", frozen.b_V[layer], frozen.W_O[layer])


def mlp_units(
    maps: FrozenMLPs, layer: int | Int[Array, ""], streams: Float[Array, "*paths n_ctx d_model"]
) -> Float[Array, "*paths n_ctx d_mlp"]:
    """Values of a layer's hidden units, factors held, from any stack of streams, without biases."""
    hidden = jnp.zeros((), streams.dtype)
    for W, g in zip(maps.W_in[layer], maps.factors[layer], strict=True):
        hidden = hidden + _times(streams @ W, g)
    if maps.W_hidden is not None and maps.hidden_factors is not None:
        for W, g in zip(maps.W_hidden[layer], maps.hidden_factors[layer], strict=True):
            hidden = _times(hidden @ W, g)
    return hidden


def _times(
    hidden: Float[Array, "*paths n_ctx d_mlp"], factors: Float[Array, "n_ctx d_mlp"]
) -> Float[Array, "*paths n_ctx d_mlp"]:
    return hidden * jnp.broadcast_to(factors, hidden.shape)


def mlp_writes(
    maps: FrozenMLPs, layer: int | Int[Array, ""], streams: Float[Array, "*paths n_ctx d_model"]
) -> Float[Array, "*paths n_ctx d_model"]:
    """``x M`` of one layer's MLP on any stack of streams, without its constant."""
    return mlp_units(maps, layer, streams) @ maps.W_out[layer]


def after_layer(
    frozen: FrozenModel,
    layer: int | Int[Array, ""],
    streams: Float[Array, "*paths n_ctx d_model"],
    written: Float[Array, "*others n_ctx d_model"],
    constants: bool = True,
) -> tuple[Float[Array, "*paths n_ctx d_model"], Float[Array, "*others n_ctx d_model"]]:
    """Streams that pass a layer by, and the writes of its heads, both behind the layer's MLP.

    ``x ↦ x (I + M_l)``. What heads wrote meets the MLP of their layer unless the form is parallel.
    In post-LN ``x ↦ x N_l (I + M_l) N'_l`` with the layer's two norms, of both.
    """
    maps, norms, first = frozen.maps, frozen.norms, (0,) * (streams.ndim - 2)
    read = streams
    if constants and frozen.b_O is not None:
        b_O = frozen.b_O[layer][None, :]
        if maps is not None:
            read = read.at[first].add(maps.after_heads * b_O)
        streams = streams.at[first].add(b_O)
    if norms is not None:
        streams, written = through_norm(norms, layer, 0, streams, written, constants)
        read = streams
    if constants and frozen.mlps is not None:
        streams = streams.at[first].add(frozen.mlps[layer])
    if maps is None:
        return streams, written
    streams = streams + mlp_writes(maps, layer, read)
    if constants:
        streams = streams.at[first].add(maps.constant[layer])
    written = written + maps.after_heads * mlp_writes(maps, layer, written)
    if norms is not None:
        streams, written = through_norm(norms, layer, 1, streams, written, constants)
    return streams, written
