"""Two layers on real text: what paths of each order are worth, what heads look at, who composes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, PyTree

from circuitax.circuits.composition import KINDS
from circuitax.circuits.heads import position_blocks, positional_share
from circuitax.circuits.in_context import token_losses
from circuitax.circuits.induction_scores import induction_scores
from circuitax.circuits.patching import ablate, each_component
from circuitax.data.repeated import RepeatedSource
from circuitax.kernel.forward import forward
from circuitax.kernel.keys import derive
from circuitax.kernel.spec import ForwardSpec
from circuitax.kernel.weights import TransformerWeights
from circuitax.lab.kept_weights import kept_weights
from circuitax.lab.lab import Lab
from circuitax.models.plain import from_plain
from circuitax.models.specs import TransformerSpec
from circuitax.records.record import Record
from experiments.text_circuits.claims import CLAIMS as CLAIMS
from experiments.text_circuits.claims import estimates
from experiments.two_layer_circuits.readings import FIRST_ORDER, of_weights, term_losses

BUDGET_SECONDS = 25
PAPER_SECONDS = 8_500  # by its work against quick scale; not run
requires = ("text_models",)


@dataclass(frozen=True)
class Spec:
    """How much text is read; the models are the two-layer ones of ``text_models``.

    Attributes:
        windows: Held-out windows to measure on, from the first of those kept.
        offsets: Distances at which attention is tabled, from the present token back.
        repeats: Texts of repeated random tokens, on which induction heads would show.
    """

    windows: int = 128
    offsets: int = 8
    repeats: int = 32

    def __post_init__(self) -> None:
        for name in ("windows", "offsets", "repeats"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Read the weights at every step kept, and run the last ones on held-out text."""
    upstream = lab.input("text_models")
    model = two_layer_model(upstream)
    n_ctx = model.n_ctx or 0
    if spec.offsets > n_ctx // 2:
        raise ValueError(f"offsets={spec.offsets} must be at most half of n_ctx={n_ctx}")
    steps = upstream.notes["steps_kept"]
    kept = [kept_weights(lab, "text_models", f"layers-2-step-{step}", model) for step in steps]
    every, last = jax.tree.map(lambda *x: jnp.stack(x), *kept), kept[-1]
    held_out = lab.load_arrays("held-out", source="text_models")["windows"][: spec.windows]
    windows, forward_spec = jnp.asarray(held_out), model.forward_spec()
    read = over_steps(partial(of_weights, spec=forward_spec))
    over_training = lab.stage("weights", read, every)
    before, after = (jax.tree.map(lambda x, i=i: x[i], over_training) for i in (0, -1))
    orders = over_steps(partial(order_losses, windows=windows, spec=forward_spec))
    over_training |= {"order_loss": lab.stage("orders", orders, every)}
    examine = partial(of_windows, spec=forward_spec, offsets=spec.offsets)
    runs = lab.stage("runs", jax.jit(jax.vmap(examine, (0, None))), last, windows)
    exam = RepeatedSource(
        spec.repeats, n_ctx, model.d_vocab, min_period=n_ctx // 4, max_period=n_ctx // 2,
        distinct=True,
    )(derive(key, "repeats"))  # fmt: skip
    scores = jax.jit(jax.vmap(lambda weights: induction_scores(weights, exam, forward_spec)))
    found = lab.stage("repeats", lambda: scores(last)._asdict())
    data = circuit_data(before, after, runs | {"prefix": found["prefix"]})
    data = data.assign_coords(step=steps).assign(
        {
            f"{name}_by_step": (("step", *data[name].dims), over_training[name])
            for name in ("copying", "composition_z", "order_loss")
        }
    )
    data["alive"] = upstream.data.alive.sel(model="layers-2", drop=True)
    data["uniform"] = np.log(model.d_vocab)
    data["n_ctx"] = n_ctx
    data["null"] = 1 / np.sqrt(model.d_model)
    data["bigram_loss"] = upstream.data.bigram_loss
    measured, unmet = estimates(data)
    notes = {"prefix_by_chance": float(found["chance"][0])}
    return Record(data=data, measured=measured, unmet=unmet, notes=notes)


def two_layer_model(upstream: Record) -> TransformerSpec:
    """The spec of the two-layer models that an upstream experiment trained.

    Raises:
        ValueError: If its deepest attention-only model has fewer layers.
    """
    plain = upstream.notes["model"]
    if plain["n_layers"] < 2:
        raise ValueError(f"upstream has model.n_layers={plain['n_layers']}, must be at least 2")
    return from_plain(plain, n_layers=2)


def over_steps(
    read: Callable[[TransformerWeights], PyTree],
) -> Callable[[TransformerWeights], PyTree]:
    """All checkpoints of all members at once: two axes in front."""
    return jax.jit(jax.vmap(jax.vmap(read)))


def order_losses(
    weights: TransformerWeights, windows: Array, spec: ForwardSpec
) -> Float[Array, " order"]:
    """Mean losses with paths of order 0, at most 1, and all, patterns frozen."""

    def one(text: Array) -> Array:
        trace = forward(weights, text, spec)[1]
        return term_losses(weights, text, spec, trace)["order_loss"].mean(axis=1)

    return jax.lax.map(one, windows).mean(axis=0)


def of_windows(
    weights: TransformerWeights, windows: Array, spec: ForwardSpec, offsets: int
) -> dict[str, Array]:
    """Means over windows: losses of terms, without each head, and attention by distance."""
    n_ctx = windows.shape[1]
    cells = each_component(weights)
    shape = cells.heads.shape[1:]

    def one(text: Array) -> dict[str, Array]:
        logits, trace = forward(weights, text, spec)

        def loss(logits: Array) -> Array:
            return token_losses(logits, text).mean()

        terms = term_losses(weights, text, spec, trace)
        late = trace.patterns[:, :, n_ctx // 2 :]
        dest = jnp.arange(n_ctx // 2, n_ctx)
        back = jnp.stack([late[:, :, dest - n_ctx // 2, dest - k] for k in range(offsets)], -1)
        return {
            **{name: losses.mean(axis=1) for name, losses in terms.items()},
            "loss": loss(logits),
            "ablated": ablate(weights, text, spec, cells, loss).reshape(shape),
            "ablated_preserving": ablate(weights, text, spec, cells, loss, preserved=trace).reshape(
                shape
            ),
            "attention": back.mean(axis=2),
        }

    found = jax.tree.map(lambda x: x.mean(axis=0), jax.lax.map(one, windows))
    share = positional_share(position_blocks(weights, spec, n_ctx))
    return found | {"positional": share[0]}


def circuit_data(
    before: dict[str, np.ndarray], after: dict[str, np.ndarray], runs: dict[str, np.ndarray]
) -> xr.Dataset:
    """What was read of the weights at both ends and of the runs, with named axes."""
    heads, pairs = ("member", "layer", "head"), ("member", "kind", "writer", "reader")
    axes: dict[str, tuple[str, ...]] = {
        "composition": pairs,
        "composition_z": pairs,
        "copying": heads,
        "matching": ("member", "writer", "reader"),
        "order_loss": ("member", "order"),
        "first_order_loss": ("member", "selection"),
        "loss": ("member",),
        "ablated": heads,
        "ablated_preserving": heads,
        "attention": (*heads, "offset"),
        "positional": ("member", "head"),
        "prefix": heads,
    }
    found = after | runs
    arrays = {name: (dims, found[name]) for name, dims in axes.items()}
    arrays |= {f"{n}_at_init": (axes[n], before[n]) for n in axes if n in before}
    selected = (("selection", "subset"), np.array(FIRST_ORDER))
    return xr.Dataset({**arrays, "selected": selected}, coords={"kind": list(KINDS)})
