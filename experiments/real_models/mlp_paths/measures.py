"""Measured values of the claims on paths through MLPs, from a record."""

from collections.abc import Callable
from functools import partial

import numpy as np
import xarray as xr
from scipy.stats import pearsonr

from circuitax.records.claims import unmet_rest
from circuitax.records.estimate import (
    Estimate,
    exact,
    geometric_estimate,
    mean_estimate,
    share_estimate,
)
from circuitax.records.measured import Measured, measures
from circuitax.records.null_samples import exchanged
from circuitax.records.nulls import Draws, Nulls
from circuitax.records.record import Record
from experiments.real_models.mlp_paths.claims import CLAIMS
from experiments.real_models.shared.model_facts import not_smollm2

DRAWS = 200
SOURCES = ("gradient", "relp")
# Of the depth: late, and before the last layer alone.
LATE = 0.5, 0.9
DIRECTIONS = 10  # first singular vectors that may approximate a map
# Of each list: what the claim and the count of evaluations add to their names.
EVALUATED = {"": "n_evaluated", "-lead": "lead_evaluated", "-neurons": "neurons_evaluated"}


def measure(record: Record) -> Measured:
    """Measured values of the claims; empty without SmolLM2."""
    why = not_smollm2(record.notes)
    if not why and record.notes["k"] != 20:
        why = f"k={record.notes['k']}: the claims are about twenty paths"
    if why:
        return Measured({}, {}, unmet_rest(CLAIMS, {}, why))
    found = estimates(record.data)
    return Measured(found, unmet_rest(CLAIMS, found, "no prompt has what the claim speaks of"), {})


@measures("paths-*", "linear-map-*")
def estimates(data: xr.Dataset) -> dict[str, Estimate]:
    """Means and shares over prompts, which are the independent units."""
    found = {
        "dressed-paths-close": exact(
            (np.abs(data.exact.sum("source") - data.logit) / np.abs(data.logit)).max(),
            data.sizes["prompt"],
        ),
        "paths-by-heads": mean_estimate(cancellation(data, "by_heads")),
        "paths-by-mlps": geometric_estimate(np.log(cancellation(data, "by_mlps"))),
        "paths-few-heads": mean_estimate(few_heads(data.by_heads.values)),
        "paths-three-tokens": mean_estimate(largest_three(data.exact.values)),
        "paths-tail": mean_estimate(data["held"].sel(largest=100).values),
        "paths-half": geometric_estimate(np.log(data.half.values)),
        "paths-proven": share_estimate(data.complete.values),
        "paths-proven-lead": share_estimate(data.lead_complete.values),
        "paths-proven-neurons": share_estimate(data.neurons_complete.values),
        "linear-map-rank": mean_estimate(held_by_first(data), bounds=(0, 1)),
        "paths-removed-token": mean_estimate(token_falls(data)),
        "paths-removed-paths": mean_estimate(path_falls(data)),
        "paths-removed-foreseen": foreseen(*foreseen_falls(data)),
    }
    if (named := named_at_end(data, 0)).size:
        found["linear-map-words"] = share_estimate(named)
    first = data.exact.values.argmax(axis=1)
    for score in SOURCES:
        same = data[score].values.argmax(axis=1) == first
        found[f"paths-{score}-source"] = share_estimate(same)
    copied = copied_token(data, first)
    if copied.size:
        found["paths-copied-token"] = share_estimate(copied)
    if (late := share_late(first_layers(data))) is not None:
        found["linear-map-layer"] = late
    for score in data.score.values:
        shares = found_heads(data, data.scores.sel(score=score).values)
        if shares.size:
            found[f"paths-found-{score}"] = mean_estimate(shares)
    return found


def nulls(record: Record) -> Nulls:
    """Draws of the nulls, each the same measure on what has nothing of the claim."""
    if not_smollm2(record.notes):
        return {}
    data, rng = record.data, np.random.default_rng(0)
    n_sources = data.sizes["source"]
    copied = data.isel(prompt=_continued(data))

    def draws(draw: Callable[[], Estimate | None]) -> list[Estimate | None]:
        return [draw() for _ in range(DRAWS)]

    def any_source(n: int) -> list[Estimate | None]:
        return draws(lambda: share_estimate(rng.integers(n_sources, size=n) == 0) if n else None)

    def other_heads(score: str) -> Estimate | None:
        scores = data.scores.sel(score=score).values
        moved = np.stack([rng.permutation(one.ravel()).reshape(one.shape) for one in scores])
        shares = found_heads(data, moved)
        return mean_estimate(shares) if shares.size else None

    falls, foreseen_by = foreseen_falls(data)
    n_layers, n_heads = data.sizes["layer"], data.sizes["head"]
    pairs = (n_layers * (n_layers - 1) // 2) * n_heads**2
    # Of heads alone; with positions there are more.
    all_paths = (1 + n_heads) ** n_layers
    random: dict[str, Draws] = {
        "paths-three-tokens": draws(
            lambda: mean_estimate(largest_three(rng.normal(size=data.exact.shape)))
        ),
        "paths-copied-token": any_source(copied.sizes["prompt"]),
        "paths-tail": [
            float(np.sort(sizes)[-100:].sum() / sizes.sum())
            for sizes in np.abs(rng.normal(size=(20, pairs)))
        ],
        # No singular value is above the first: ten have at most ten over the stable rank.
        "linear-map-rank": [
            mean_estimate(
                np.minimum(1, DIRECTIONS / np.maximum(data.rank_shuffled.values, 1)).mean(axis=1)
            )
        ],
    }
    random |= {f"paths-{score}-source": any_source(data.sizes["prompt"]) for score in SOURCES}
    for score in data.score.values:
        random[f"paths-found-{score}"] = draws(partial(other_heads, str(score)))
    return {
        "false world": {
            f"paths-proven{of}": [share_estimate(data[evaluated].values >= all_paths)]
            for of, evaluated in EVALUATED.items()
        },
        "random": random,
        "mismatched": {
            "paths-by-heads": [mean_estimate(cancellation(data, "by_mlps"))],
            "paths-by-mlps": [geometric_estimate(np.log(cancellation(data, "by_heads")))],
            "paths-half": [geometric_estimate(np.log(data.one_head_half.values))],
            "linear-map-words": [
                share_estimate(named) if (named := named_at_end(data, shift)).size else None
                for shift in range(1, data.sizes["map"])
            ],
        },
        "permuted": {
            "paths-few-heads": draws(
                lambda: mean_estimate(few_heads(rng.permuted(data.by_heads.values, axis=1)))
            ),
            "paths-removed-foreseen": draws(lambda: foreseen(rng.permutation(falls), foreseen_by)),
            "linear-map-layer": draws(lambda: share_late(first_layers(data, rng))),
            **exchanged(
                {"paths-removed-token": token_falls(data), "paths-removed-paths": path_falls(data)}
            ),
        },
    }


def cancellation(data: xr.Dataset, orders: str) -> np.ndarray:
    """Sum of the absolute values of the orders over the logit, of each prompt."""
    return np.asarray(np.abs(data[orders].values).sum(axis=1) / np.abs(data.logit.values))


def few_heads(orders: np.ndarray) -> np.ndarray:
    """Share of the paths through at most three heads in the sum of all."""
    return np.asarray(orders[:, :4].sum(axis=1) / orders.sum(axis=1))


def largest_three(values: np.ndarray) -> np.ndarray:
    """Share of the three largest in the sum of absolute values, of each row."""
    sizes = np.sort(np.abs(values), axis=1)
    return np.asarray(sizes[:, -3:].sum(axis=1) / sizes.sum(axis=1))


def copied_token(data: xr.Dataset, first: np.ndarray) -> np.ndarray:
    """Whether the token that carries most is the next one, where the model repeats."""
    rows = _continued(data)
    return np.asarray(data.ids.values[rows, first[rows]] == data.token.values[rows])


def held_by_first(data: xr.Dataset) -> np.ndarray:
    """Share of a map's squared singular values that the first have, mean over tokens, by prompt.

    The record has the first values of each map, and the sum of all squares over the first one's.
    """
    squares = data.singular.values.astype(float) ** 2
    sums = np.maximum(data.rank_of.values * squares[..., 0], np.finfo(float).tiny)
    return np.minimum(squares[..., :DIRECTIONS].sum(axis=-1) / sums, 1).mean(axis=1)


def named_at_end(data: xr.Dataset, shift: int) -> np.ndarray:
    """Whether the map names the predicted token, or with a shift that of another prompt.

    Prompts whose largest source is the first token are left out: its map is nearly of rank one.
    """
    n = data.sizes["map"]
    source = data.exact.values[data.map_prompt.values].argmax(axis=1)
    named = data.named.isel(layer=-1).values
    return np.asarray(named[np.arange(n), (np.arange(n) + shift) % n][source > 0])


def first_layers(data: xr.Dataset, rng: np.random.Generator | None = None) -> np.ndarray:
    """Layer from which on the predicted token is named, over the depth, where it is in the end.

    With ``rng`` the layers before the last are shuffled in each prompt.
    """
    own = np.stack([named[:, i] for i, named in enumerate(data.named.values)])
    own = own[own[:, -1]]
    if rng is not None:
        own[:, :-1] = rng.permuted(own[:, :-1], axis=1)
    return np.array([(np.flatnonzero(~row).max(initial=-1) + 1) / row.size for row in own])


def share_late(layers: np.ndarray) -> Estimate | None:
    """Share of those in `LATE`; None where no prompt's token is named in the end."""
    begin, end = LATE
    return share_estimate((layers >= begin) & (layers <= end)) if layers.size else None


def found_heads(data: xr.Dataset, scores: np.ndarray) -> np.ndarray:
    """Share of the heads of each proven list that are among as many first by a score."""
    shares = []
    for heads, score in zip(data.on_list.values, np.abs(scores), strict=True):
        order = np.argsort(-score, axis=None, kind="stable")[: heads.sum()]
        order = order[score.ravel()[order] > 0]
        shares.append(heads.ravel()[order].sum() / max(heads.sum(), 1))
    return np.array(shares)[data.complete.values & (data.on_list.values.sum(axis=(1, 2)) > 0)]


def token_falls(data: xr.Dataset) -> np.ndarray:
    """Fall without the first source minus that without another, over the logit."""
    without = data.without_tokens.values
    return np.asarray((without[:, 1] - without[:, 0]) / data.logit.values)


def path_falls(data: xr.Dataset) -> np.ndarray:
    """Fall without the largest paths minus the mean fall without others, over the logit."""
    without = data.without_paths.values
    return np.asarray((without[:, 1:].mean(axis=1) - without[:, 0]) / data.logit.values)


def foreseen_falls(data: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Fall without the largest paths, and their sum."""
    return (data.logit - data.without_paths.isel(set=0)).values, data.path_sum.isel(set=0).values


def foreseen(falls: np.ndarray, sums: np.ndarray) -> Estimate:
    """Correlation over prompts with Fisher's interval."""
    found = pearsonr(falls, sums)
    low, high = found.confidence_interval()
    return Estimate(float(found.statistic), float(low), float(high), len(falls), "Fisher 95%")


def _continued(data: xr.Dataset) -> np.ndarray:
    """Prompts of random tokens that the model continues rightly."""
    return np.flatnonzero(data.token.values == data.right.values)
