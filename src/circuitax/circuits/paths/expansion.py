"""The path expansion: logits as a sum over paths, with patterns, norm scales and gates frozen.

When ``Π_l (1 + Σ_h H_lh)`` is multiplied out, a path picks the 1 or one head in each layer. This is
combinatorics on the host, without arrays.

``T = (I ⊗ W_U) Π_l (I + Σ_h A^h ⊗ W_OV^h) (I ⊗ W_E)``, multiplied out. With MLPs the stream is
dressed: the factor of a layer is ``(I + M_l)(I + Σ_h A^h ⊗ W_OV^h)``, M being another map at every
position, and only the heads are multiplied out. In post-LN the frozen norms after the additions are
factors of their own, which every path passes. An `Expansion` holds the remainder too, which shows
whether the paths sum to the logits, and the absolute sum, which shows whether they cancel.

By order and by layer the sums need no single path. Heads in series are one virtual head: through
V-composition, ``H`` heads in each of two layers form ``H²``, each with a pattern and an OV circuit
of its own.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from circuitax.circuits.paths.components import logits_of
from circuitax.circuits.paths.frozen import (
    FrozenModel,
    after_layer,
    frozen_model,
    head_constants,
    head_writes,
)
from circuitax.circuits.weights.folding import check_pre_ln
from circuitax.display.tables import NumberTable, documented, sum_table
from circuitax.kernel import kron
from circuitax.kernel.attention import per_head
from circuitax.kernel.chain import Chain, chain_of
from circuitax.kernel.checks import whole
from circuitax.kernel.compiled import compiled
from circuitax.kernel.kron import Kron
from circuitax.kernel.model import Model
from circuitax.kernel.run import Run
from circuitax.kernel.shown import known, largest, shapes

Head = tuple[int, int]
"""(layer, head)."""

Path = tuple[Head, ...]
"""Heads in the order in which they act, layers rising; ``()`` is the direct path."""


def n_paths(n_layers: int, n_heads: int, order: int | None = None) -> int:
    """Number of paths through ``order`` heads, ``C(L, k) H^k``; in all, ``(1 + H)^L``.

    Source: framework paper, "path expansion"; S0 section 6, "explosion of possible paths".
    """
    _not_negative(n_layers=n_layers, n_heads=n_heads, order=order)
    if order is None:
        return (1 + n_heads) ** n_layers
    return math.comb(n_layers, order) * n_heads**order


def all_paths(n_layers: int, n_heads: int, max_order: int | None = None) -> Iterator[Path]:
    """Every path once, in the order of `expansion.path_streams`."""
    _not_negative(n_layers=n_layers, n_heads=n_heads, max_order=max_order)
    paths: list[Path] = [()]
    for layer in range(n_layers):
        paths += [
            (*path, (layer, head))
            for head in range(n_heads)
            for path in paths
            if max_order is None or len(path) < max_order
        ]
    return iter(paths)


def path_index(path: Path, n_heads: int) -> int:
    """The position of a path among `all_paths`: its digits in base ``1 + n_heads``."""
    return sum((1 + head) * (1 + n_heads) ** layer for layer, head in path)


def check_path(path: Path, n_layers: int, n_heads: int) -> None:
    """Refuse a path through layers or heads that the model lacks."""
    layers = [layer for layer, _ in path]
    if any(later <= earlier for earlier, later in itertools.pairwise(layers)):
        raise ValueError(f"path={path} must name layers in rising order, each at most once")
    for layer, head in path:
        if not (0 <= layer < n_layers and 0 <= head < n_heads):
            raise ValueError(
                f"path={path} must name layers below {n_layers} and heads below {n_heads}"
            )


def path_name(
    path: Path, sources: tuple[int | None, ...] | None = None, start: int | None = None
) -> str:
    """``"direct"``, or heads in order of action, such as ``"0.3 → 1.2"`` or ``"mlp 0 → 1.2"``."""
    heads = [f"{layer}.{head}" for layer, head in path]
    if sources is not None:
        read = ["bias" if source is None else source for source in sources]
        heads = [f"{head}[{place}]" for head, place in zip(heads, read, strict=True)]
    if start is not None:
        heads = [f"mlp {start}", *heads]
    return " → ".join(heads) or "direct"


def _not_negative(**given: int | None) -> None:
    for name, value in given.items():
        if value is not None and value < 0:
            raise ValueError(f"{name}={value} must be at least 0")


PATH_LIMIT = 2**14  # paths that `path_streams` holds at once by default


@documented
class Expansion(NamedTuple):
    """Logits split into terms; ``terms.sum(0) + bias + remainder`` are the logits.

    Attributes:
        terms: One for each path, in the order of `paths.all_paths`.
        bias: ``b_U`` and the final norm's offset, which belong to no path.
        remainder: Logits minus the terms: rounding where the terms are complete, else what was left
            out.
        n_heads: Heads of a layer, by which paths have their names.
    """

    terms: Float[Array, "n_terms n_ctx d_vocab"]
    bias: Float[Array, " d_vocab"]
    remainder: Float[Array, "n_ctx d_vocab"]
    n_heads: int | Int[Array, ""]

    @property
    def absolute(self) -> Float[Array, "n_ctx d_vocab"]:
        """``Σ |term|``; where it is far above the logit, terms cancel and mean little singly."""
        return jnp.abs(self.terms).sum(axis=0)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The heads of each path, in the order of ``terms``; concrete arrays only."""
        n_heads = int(self.n_heads)
        n_layers = round(math.log(self.terms.shape[-3], 1 + n_heads)) if n_heads else 0
        return tuple(all_paths(n_layers, n_heads))

    @property
    def logits(self) -> Float[Array, "n_ctx d_vocab"]:
        """Terms, bias and remainder added up."""
        return self.terms.sum(axis=-3) + self.bias[..., None, :] + self.remainder

    def _repr_html_(self) -> str | None:
        """The largest paths to the likeliest next token, as bars that add up, for a notebook."""
        if np.ndim(self.terms) != 3 or not known(self.terms, self.remainder):
            return None
        token = int(np.asarray(self.logits[-1]).argmax())
        values = np.asarray(self.terms[:, -1, token], float)
        top = [i for (i,) in largest(values)]
        terms = [(path_name(self.paths[i]), float(values[i])) for i in top]
        if len(values) > len(top):
            rest = float(np.delete(values, top).sum())
            terms.append((f"{len(values) - len(top)} other paths", rest))
        terms += [
            ("bias", float(self.bias[token])),
            ("remainder", float(self.remainder[-1, token])),
        ]
        title = f"Paths to the logit of token {token} at the last position"
        return sum_table(title, terms, "logit")

    def __repr__(self) -> str:
        if np.ndim(self.terms) != 3 or not known(self.terms, self.remainder):
            return shapes(self)
        terms = np.asarray(self.terms)
        most = np.abs(terms).max(axis=(1, 2), initial=0)
        names = [path_name(path) for path in self.paths]
        rows = [(names[i], [most[i]]) for (i,) in largest(most)]
        left = np.abs(np.asarray(self.remainder)).max(initial=0)
        n, n_ctx, d_vocab = terms.shape
        whole = np.abs(terms.sum(axis=0)).mean() if terms.size else 0.0
        head = (
            f"Expansion of logits [{n_ctx}, {d_vocab}] into {n} paths; "
            f"remainder at most {left:.2g}\n"
            f"absolute sums {np.abs(terms).sum(axis=0).mean():.3g} where sums are {whole:.3g} "
            "on average"
        )
        return NumberTable(head, ("largest logit",), rows).text()


def path_streams(
    frozen: FrozenModel, max_paths: int = PATH_LIMIT
) -> Float[Array, "n_paths n_ctx d_model"]:
    """Each path's contribution to the final stream, in the order of `paths.all_paths`."""
    n_layers, n_heads = frozen.A.shape[:2]
    count = n_paths(n_layers, n_heads)
    if count > whole("max_paths", max_paths, 1):
        raise ValueError(
            f"the model has {count} paths, more than max_paths={max_paths}; "
            "rank them with ledger or sum them with order_terms"
        )
    streams = frozen.embedding[None]
    for layer in range(n_layers):
        written = head_writes(frozen, layer, streams)
        written = written.at[:, 0].add(head_constants(frozen, layer))
        streams, written = after_layer(frozen, layer, streams, written)
        streams = jnp.concatenate([streams, written.reshape(-1, *streams.shape[1:])])
    return streams


@compiled("max_paths", "mlps", "gates")
def expand(
    run: Run, *, mlps: str = "dressed", gates: str = "frozen", max_paths: int = PATH_LIMIT
) -> Expansion:
    """The logits as a sum over all paths: ``terms[i]`` is what ``paths[i]`` adds.

    Args:
        run: A run on one text, made with ``outputs=True`` if the model has MLPs; the remainder is
            taken against its logits.
        mlps: As in `frozen_model`: by default paths run through heads in the dressed stream.
        gates: As in `frozen_model`.
        max_paths: As in `path_streams`.

    Raises:
        ValueError: If the run is of several texts, a name is unknown, what MLPs wrote was not
            recorded, or there are more than ``max_paths`` paths.

    Source: framework paper, "path expansion trick"; S0 Proposition 22 for one layer.
    """
    frozen, logits = frozen_model(run, mlps=mlps, gates=gates), run.logits
    terms = logits_of(path_streams(frozen, max_paths), frozen.read_out)
    b_U = frozen.read_out.b_U
    bias = jnp.zeros(logits.shape[-1], logits.dtype) if b_U is None else b_U
    remainder = logits - (terms.sum(axis=0) + bias[None, :])
    return Expansion(terms, bias, remainder, run.model.n_heads)


def path_stream(
    frozen: FrozenModel, path: Path, start: int | str | None = "any"
) -> Float[Array, "n_ctx d_model"]:
    """One path's contribution to the final stream, constants included."""
    n_layers = frozen.A.shape[0]
    first = path[0][0] if path else n_layers
    if frozen.maps is not None or frozen.norms is not None:
        if isinstance(start, int):
            raise ValueError(f"start={start} must be None: in a dressed stream no MLP is a source")
        return _dressed_path_stream(frozen, dict(path), first)
    if isinstance(start, int):
        stream = _mlp_stream(frozen, start, first)
    else:
        stream = frozen.embedding
        if frozen.b_O is not None:
            stream = stream + frozen.b_O[:first].sum(axis=0)[None, :]
        if frozen.mlps is not None and start is not None:
            stream = stream + frozen.mlps[:first].sum(axis=0)
    for layer, head in path:
        mixed = frozen.A[layer, head] @ (stream @ frozen.W_V[layer, head])
        own = frozen.b_V is not None and not isinstance(start, int)
        if frozen.b_V is not None and own and (layer, head) == path[0]:
            mixed = mixed + frozen.b_V[layer, head]
        stream = mixed @ frozen.W_O[layer, head]
    return stream


def _dressed_path_stream(
    frozen: FrozenModel, head_of: dict[int, int], first: int
) -> Float[Array, "n_ctx d_model"]:
    """`path_stream` behind all MLPs and norms; the path's layers with their heads, the first."""
    stream = frozen.embedding
    for layer in range(frozen.A.shape[0]):
        if layer not in head_of:
            stream, _ = after_layer(frozen, layer, stream, stream, constants=layer < first)
            continue
        head = head_of[layer]
        mixed = frozen.A[layer, head] @ (stream @ frozen.W_V[layer, head])
        if frozen.b_V is not None and layer == first:
            mixed = mixed + frozen.b_V[layer, head]
        _, stream = after_layer(frozen, layer, stream, mixed @ frozen.W_O[layer, head], False)
    return stream


def _mlp_stream(frozen: FrozenModel, start: int, first: int) -> Float[Array, "n_ctx d_model"]:
    if frozen.mlps is None or start >= first:
        raise ValueError(f"start={start} must be None, or an MLP before the path's first head")
    return frozen.mlps[start]


def path_term(frozen: FrozenModel, path: Path) -> Kron:
    """One path from the embedding to the logits: ``(A^{h_k} … A^{h_1}) ⊗ (W_OV^{h_1} … W_U)``.

    The position factors are multiplied, the feature maps stay a chain. The direct path has no
    position factor. It acts on ``[n_ctx, d_model]`` rows; biases are not part of it. In post-LN
    every layer adds a factor ``diag(1/σ) ⊗ (I - 1 1ᵀ/d) diag(γ)``, also where the path skips it.

    Source: framework paper, "virtual attention heads"; S0 section 6.
    """
    if frozen.maps is not None:
        raise ValueError("frozen.maps must be None: a dressed path is no Kronecker product")
    n_layers = frozen.A.shape[0]
    term = kron.identity()
    head_of = dict(path)
    for layer in range(n_layers):
        if layer in head_of:
            term = kron.compose(head_term(frozen, layer, head_of[layer]), term)
        if frozen.norms is not None:
            term = kron.compose(frozen.norms.term(layer, 0), term)
    scale = frozen.read_out.scale
    last = Kron(None if scale is None else jnp.diag(1 / scale), chain_of(frozen.read_out.W_U))
    return kron.compose(last, term)


def head_term(frozen: FrozenModel, layer: int, head: int) -> Kron:
    """One head on the stream: ``A^h ⊗ W_OV^h`` (S0 Claim 18)."""
    chain = chain_of(frozen.W_V[layer, head], frozen.W_O[layer, head])
    return Kron(frozen.A[layer, head], chain)


def bigram_path(frozen: FrozenModel, W_E: Float[Array, "d_vocab d_model"]) -> Kron:
    """``I ⊗ W_U W_E`` on one-hot tokens (S0 Proposition 22; Rmk. 21 for no layers)."""
    return kron.compose(path_term(frozen, ()), kron.process(chain_of(W_E)))


def skip_trigram_paths(
    frozen: FrozenModel, W_E: Float[Array, "d_vocab d_model"]
) -> tuple[Kron, ...]:
    """``A^h ⊗ W_U W_OV^h W_E`` on one-hot tokens, one for each head of layer 0 (S0 Prop. 22)."""
    embed = kron.process(chain_of(W_E))
    return tuple(
        kron.compose(path_term(frozen, ((0, head),)), embed) for head in range(frozen.A.shape[1])
    )


class OwnSplit(NamedTuple):
    """A term split by source position: ``own + earlier`` is the term."""

    own: Kron
    """From the destination's own position, ``j = i``: a bigram term, whatever the heads."""
    earlier: Kron
    """From all other positions, ``j < i`` in a causal model: true skip-trigrams."""


def split_own_position(term: Kron, n_ctx: int) -> OwnSplit:
    """Split a path's reads into its own position and earlier positions.

    Source: S0 Theorem 25, whose sum over ``j <= i`` counts bigram terms as skip-trigrams (E24).
    """
    if term.A is None:
        return OwnSplit(term, Kron(jnp.zeros((n_ctx, n_ctx)), term.W))
    own = jnp.diag(jnp.diagonal(term.A))
    return OwnSplit(Kron(own, term.W), Kron(term.A - own, term.W))


def order_streams(frozen: FrozenModel) -> Float[Array, "order n_ctx d_model"]:
    """Contribution of the paths of each order, 0 … n_layers, to the final stream.

    ``c_k ← c_k + Σ_h A^h c_{k-1} W_OV^h`` layer by layer: one pass, the cost of n_layers + 1
    streams. Differentiable. Output biases ``b_O`` and constants of MLPs, or what these wrote as
    sources, have order 0, value biases the order of their head. In a dressed stream every ``c_k``
    passes the MLPs, ``c_k (I + M_l)``: the order counts heads.

    Source: framework paper, "term importance analysis" (V-composition, patterns frozen).
    Differs: the paper runs the model once for each order; S4's step 1 also forgets to save what
        step 2 adds (E34 of docs/errata.md). Both give these sums.
    """
    n_layers = frozen.A.shape[0]
    streams = jnp.zeros((n_layers + 1, *frozen.tokens.shape), frozen.tokens.dtype)
    streams = streams.at[0].set(frozen.embedding)
    for layer in range(n_layers):
        written = head_writes(frozen, layer, streams[:-1], summed=True)
        written = written.at[0].add(head_constants(frozen, layer).sum(axis=0))
        streams, written = after_layer(frozen, layer, streams, written)
        streams = streams.at[1:].add(written)
    return streams


def layer_subset_streams(frozen: FrozenModel) -> Float[Array, "subset n_ctx d_model"]:
    """Contribution of the paths through exactly the layers of each subset to the final stream."""
    n_layers = frozen.A.shape[0]
    streams = frozen.embedding[None]
    for layer in range(n_layers):
        written = head_writes(frozen, layer, streams, summed=True)
        written = written.at[0].add(head_constants(frozen, layer).sum(axis=0))
        streams, written = after_layer(frozen, layer, streams, written)
        streams = jnp.concatenate([streams, written])
    return streams


def virtual_patterns(
    frozen: FrozenModel, first: int, second: int
) -> Float[Array, "n_heads n_heads dest src"]:
    """``A² A¹`` of all pairs, ``[head of the first layer, head of the second, dest, src]``."""
    return jnp.einsum("bts,asr->abtr", frozen.A[second], frozen.A[first])


def virtual_ov(model: Model, first: int, second: int) -> Chain:
    """``W_OV¹ W_OV²`` of all pairs, a chain batched over ``[head of first, head of second]``."""
    check_pre_ln(model, "virtual_ov")
    heads = per_head(model)
    return chain_of(
        heads.W_V[first][:, None],
        heads.W_O[first][:, None],
        heads.W_V[second][None],
        heads.W_O[second][None],
    )
