"""Equal measurements of both languages, and English ones by the claim that they settle."""

import numpy as np
import xarray as xr

from circuitax.records.claims import unmet_rest
from circuitax.records.estimate import Estimate, exact, mean_estimate, mean_estimates
from circuitax.records.measured import Measured
from circuitax.records.members import members_where
from circuitax.records.null_samples import exchanged
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from circuitax.records.shared_exam import over_seeds_only, widened
from experiments.induction.languages.claims import CLAIMS
from experiments.induction.shared.measures_term_worth import (
    even_attention,
    nearness_alone,
    previous_preferred,
    term_worth,
    without_redundancy,
)

# Claims on a difference within each model; its sides are exchanged for their null.
DIFFERENCES = (
    *("one-layer", "two-layers", "copying-rise", "rejoin"),
    *("order-0", "order-1-above-0", "order-1-above-2", "layer-0-redundant", "layer-1-above-0"),
)

# What the held-out windows that all seeds share have of the variance, as measured on Python source
# (docs/checks.md), of orders the most that was measured, and claims for which it was not.
OF_WINDOWS = {
    "one-layer": 0.93,
    "two-layers": 0.57,
    "previous-head": 0.26,
    "local": 0.04,
} | dict.fromkeys(
    (
        *("order-0", "order-1", "order-2", "order-1-share", "order-2-share"),
        *("order-1-above-0", "order-1-above-2", "layer-0-redundant", "layer-0-nearly-redundant"),
        *("layer-1-above-0", "layer-1-share"),
    ),
    0.9,
)
LEFT_OUT = ("zero-layers", "induction-head")
COPIES = 0.25  # copying score that one random head in twenty has between trained embeddings


def measure(record: Record) -> Measured:
    """English by the names of the claims, Python source by the same names with its own word."""
    if "missing" in record.notes:
        why = f"the English text is not at hand: {record.notes['missing']}"
        return Measured({}, {}, {claim.id: why for claim in CLAIMS})
    measured: dict[str, Estimate] = {}
    for language in record.data.language.values:
        data = record.data.sel(language=language)
        measured |= {f"{language}-{name}": value for name, value in _estimates(data).items()}
        for table in ("bigram", "unigram"):
            measured[f"{language}-{table}-table"] = exact(data[f"{table}_loss"])
    return Measured(measured, unmet_rest(CLAIMS, measured, "no seed stayed finite"))


def _estimates(data: xr.Dataset) -> dict[str, Estimate]:
    """Means over the seeds all of whose depths stayed finite."""
    members = members_where(data, (data.alive == 1).all("model"))
    if not members.sizes["member"]:
        return {}
    return over_seeds_only(widened(mean_estimates(samples(members)), OF_WINDOWS), LEFT_OUT)


def nulls(record: Record) -> Nulls:
    """Draws of the nulls on English: other heads, sides exchanged, and false worlds."""
    if "missing" in record.notes:
        return {}
    data = record.data.sel(language="english")
    members = members_where(data, (data.alive == 1).all("model"))
    if not members.sizes["member"]:
        return {}
    found, worth = samples(members), term_worth(members)
    start = samples(members.assign(ov_copying=members.ov_copying_at_init))["most-copy"]
    one = members.loss_of_depth.isel(model=1)
    return {
        "random": {
            f"english-{kind}-head": [even_attention(int(data.n_ctx))]
            for kind in ("previous", "induction")
        },
        "untrained": {"english-most-copy": [mean_estimate(start)]},
        "mismatched": {
            "english-zero-layers": [mean_estimate(one - members.bigram_loss)],
        },
        "permuted": exchanged(
            {f"english-{name}": found[name] for name in DIFFERENCES if name in found}
        ),
        "false world": {
            "english-layer-0-nearly-redundant": without_redundancy(
                worth.first_alone, worth.first_last
            ),
            "english-local": nearness_alone(members),
        },
    }


def samples(members: xr.Dataset) -> dict[str, xr.DataArray]:
    """One number for each seed of one language, by the claim whose mean it is."""
    none, one, two = (members.loss_of_depth.isel(model=i) for i in range(3))
    worth = term_worth(members)
    found = {
        "zero-layers": none - members.bigram_loss,
        "one-layer": members.bigram_loss - one,
        "two-layers": one - two,
        "most-copy": (members.ov_copying > COPIES).mean("cell"),
        "copying-rise": (members.ov_copying - members.ov_copying_at_init).median("cell"),
        "copying-top-5": members.ov_top_5.max("cell") / members.chance_5,
        "order-0": members.unigram_loss - members.order_loss.isel(order=0),
        "order-1": worth.heads,
        "order-2": worth.virtual,
        "order-1-share": worth.heads / worth.of_all_orders,
        "order-2-share": worth.virtual / worth.of_all_orders,
        "order-1-above-0": worth.heads - worth.direct,
        "order-1-above-2": worth.heads - worth.virtual,
        "layer-0-redundant": worth.first_alone - worth.first_last,
        "layer-0-nearly-redundant": worth.first_last / worth.first_alone,
        "layer-1-above-0": worth.second_last - worth.first_last,
        "layer-1-share": worth.second_last / worth.of_both_layers,
        "local": previous_preferred(members),
        "previous-head": members.attention.isel(layer=0, offset=1).max("head"),
        "induction-head": members.prefix.max(("layer", "head")),
    }
    # Of text that has no such words there is nothing to say.
    words = {
        "rejoin": _rejoined(members, "") - _rejoined(members, "_at_init"),
        "table-rows": (members.table_row - members.table_row_at_init).min("row"),
    }
    return found | {name: x for name, x in words.items() if bool(np.isfinite(x).all())}


def _rejoined(members: xr.Dataset, when: str) -> xr.DataArray:
    """Score on one half of the words of the head that is best on the other half."""
    chosen = members[f"rejoin_choice{when}"].fillna(0).argmax("cell")
    return members[f"rejoin{when}"].isel(cell=chosen)
