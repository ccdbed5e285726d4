"""What published models are held against; without their weights every claim is out of reach."""

import numpy as np
import xarray as xr

from circuitax.records.claims import Claim, Expected, at_least, at_most, near
from circuitax.records.estimate import Estimate, exact

ARENA = "ARENA 1.2, two-layer attention-only model"
FRAMEWORK = "framework paper"
ONE = "the published model; there is one"
DIGITS = "to rounding of the printed value"
PREFIX_SCORE = 0.4


def _arena(id: str, statement: str, expected: Expected, why: str, kind: str = "number") -> Claim:
    return Claim(id, ARENA, statement, id, expected, why, kind, ONE)


def _nats(id: str, statement: str, nats: float, tol: float) -> Claim:
    why = "read from an image; another model of the same sizes, on other text"
    models = "a two-layer model of 12 heads of 64 and about 50,000 tokens"
    source = f"{FRAMEWORK}, term importance analysis"
    return Claim(id, source, statement, id, near(nats, tol), why, "number", models)


# Claims by what they need.
TWO_LAYERS = (
    _arena("arena-copying-top-1", "Head 1.4 raises the attended token most: share of tokens",
           near(0.3079, 5e-5), DIGITS),
    _arena("arena-copying-top-5", "Head 1.4 has it among the five it raises most",
           near(0.4773, 5e-5), DIGITS),
    _arena("arena-both-top-1", "Heads 1.4 and 1.10 together: share of tokens they raise most",
           near(0.956, 5e-4), DIGITS),
    _arena("arena-both-top-5", "Heads 1.4 and 1.10 together: among the five", near(0.98, 5e-3),
           DIGITS),
    _arena("arena-previous", "The head of layer 0 that attends to the previous token most is 0.7",
           near(7, 0), "an index"),
    _arena("arena-induction", "Heads with a prefix score over 0.4 on repeated random tokens that "
           "are not 1.4 and 1.10, and those two if they are not: count", at_most(0), "a list",
           "shape"),
    _arena("arena-induction-score", "Induction score 0.68 of one of both heads (which one is not "
           "said: the nearer)", near(0.68, 0.03), "ten random texts"),
    _arena("arena-without-previous", "Without head 0.7 the induction score of 1.4 and 1.10 falls "
           "to about 0: the larger of both", at_most(0.1), "0.68 before", "shape"),
    _arena("arena-without-others", "Without any other head of layer 0 it changes little: least "
           "share that is left", at_least(0.75), "a quarter is little", "shape"),
    _arena("arena-k-composition", "K-composition of 0.7 with 1.4 and 1.10 stands out: how many of "
           "the two largest scores of all pairs they are", near(2, 0), "a count", "shape"),
    _arena("arena-v-composition", "V-composition of 1.4 and 1.10 with layer 0 is very low: largest "
           "score over the smaller of their K-compositions with 0.7", at_most(0.5), "a half",
           "shape"),
    Claim("published-corner", f"{FRAMEWORK}, OV and QK eigenvalue scatter (F15)", "Smaller of "
          "copying and same-matching: worst induction head minus best other head of layer 1",
          "published-corner", at_least(0), "a relation", "shape", ONE),
)  # fmt: skip
TEXT = (
    _nats("published-order-0", "Nats that the direct path saves over uniform guessing (F16)", 1.8,
          0.5),
    _nats("published-order-1", "Nats that single heads save beyond it (F16)", 5.2, 0.5),
    _nats("published-order-2", "Nats that virtual heads save beyond those (F16)", 0.3, 0.2),
    _nats("published-layer-0", "Nats that order-1 terms of the first layer save, given the direct "
          "path and the second layer (F17)", 0.05, 0.05),
    _nats("published-layer-1", "Nats that order-1 terms of the second layer save, given the direct "
          "path and the first layer (F17)", 4.0, 0.5),
    Claim("published-text-induction", f"{FRAMEWORK}, attention on a paragraph of a novel (F11)",
          "On text, prefix score of the worst induction head minus the best other head",
          "published-text-induction", at_least(0), "a relation", "shape", ONE),
)  # fmt: skip
ONE_LAYER = (
    Claim("published-most-copy", f"{FRAMEWORK}, OV eigenvalues of a one-layer model (F9)", "Most "
          "heads of a published one-layer model copy: share with an eigenvalue score over 0.1",
          "published-most-copy", at_least(0.5), "10 of 12 in the paper; more than half", "shape",
          "any one-layer model of about 50,000 tokens"),
    Claim("published-copying-pattern", f"{FRAMEWORK}, skip-trigrams by pattern (F3)", "Of the "
          "hundred strongest skip-trigrams of a head, share of the pattern [b] … [a] → [b], the "
          "best head", "published-copying-pattern", at_least(0.5), "more than half; by chance one "
          "in 50,000", "shape", "any one-layer model of about 50,000 tokens"),
)  # fmt: skip
WORDS = (
    Claim("published-skip-trigrams", f"{FRAMEWORK}, skip-trigram tables (F2, F4)", "Share of the "
          "named skip-trigrams (such as back … and → forth) that some head has: positive score, "
          "out among the ten it raises most", "published-skip-trigrams", at_least(0.5),
          "more than half", "shape", "triples of whole tokens"),
    Claim("published-bug", f"{FRAMEWORK}, skip-trigram bugs (F7)", "A head that has keep … in → "
          "mind and keep … at → bay has keep … in → bay and keep … at → mind too: share of the "
          "heads that have both", "published-bug", at_least(0.5), "more than half", "shape",
          "heads that have both"),
)  # fmt: skip
NEVER = (
    Claim("published-ten-of-twelve", f"{FRAMEWORK}, OV eigenvalues of a one-layer model (F9)",
          "Share of heads with an OV eigenvalue score over 0.1", "published-ten-of-twelve",
          near(10 / 12, 1 / 24), "one head is a twelfth", "number", "the paper's 12-head model"),
    Claim("published-larger", f"{FRAMEWORK}, induction head of a larger model (F14)", "Keys of an "
          "induction head are built from tokens before the attended one: share of the score",
          "published-larger", at_least(0.5), "an illustration in the paper", "shape",
          "the paper's larger model"),
)  # fmt: skip
REMOVALS = {"arena-without-previous", "arena-without-others"}
CLAIMS = TWO_LAYERS + TEXT + ONE_LAYER + WORDS + NEVER


def two_layer_estimates(
    data: xr.Dataset, previous: int, inducers: tuple[int, ...]
) -> dict[str, Estimate]:
    """What is measured of a two-layer model: one number each, without an interval."""
    found = data.prefix.values > PREFIX_SCORE
    known = np.zeros_like(found)
    known[1, list(inducers)] = True
    left = data.prefix_without.isel(head=list(inducers)).values
    intact = data.prefix.isel(layer=1, head=list(inducers)).values
    others = np.arange(len(left)) != previous
    K, V = (data.composition.sel(kind=kind).values for kind in "KV")
    largest = np.argsort(K, axis=None)[-len(inducers) :]
    joined = [np.ravel_multi_index((previous, head), K.shape) for head in inducers]
    corner = np.minimum(data.copying.values[1], data.matching.values)
    rest = np.delete(corner, list(inducers))
    values = {
        "arena-copying-top-1": data.copied.sel(heads="first", k=1),
        "arena-copying-top-5": data.copied.sel(heads="first", k=5),
        "arena-both-top-1": data.copied.sel(heads="all", k=1),
        "arena-both-top-5": data.copied.sel(heads="all", k=5),
        "arena-previous": data.previous.isel(layer=0).argmax("head"),
        "arena-induction": np.sum(found != known),
        "arena-induction-score": intact[np.argmin(np.abs(intact - 0.68))],
        "arena-without-previous": left[previous].max(),
        "arena-without-others": (left[others] / intact[None]).min(),
        "arena-k-composition": len(set(largest) & set(joined)),
        "arena-v-composition": V[:, list(inducers)].max() / K[previous, list(inducers)].min(),
        "published-corner": corner[list(inducers)].min() - rest.max(initial=-1),
    }
    if intact.min() < PREFIX_SCORE:  # nothing that a removal could take away
        values = {name: value for name, value in values.items() if name not in REMOVALS}
    return {name: exact(value) for name, value in values.items()}


def text_estimates(data: xr.Dataset, inducers: tuple[int, ...]) -> dict[str, Estimate]:
    """Marginals of orders and layers, in nats saved, and attention on text."""
    order, first = data.order_loss.values, data.first_order_loss.values
    inside = np.zeros(data.text_prefix.shape, bool)
    inside[1, list(inducers)] = True
    prefix = data.text_prefix.values
    values = {
        "published-order-0": float(data.uniform) - order[0],
        "published-order-1": order[0] - order[1],
        "published-order-2": order[1] - order[2],
        "published-layer-0": first[2] - first[3],
        "published-layer-1": first[1] - first[3],
        "published-text-induction": prefix[inside].min() - prefix[~inside].max(),
    }
    return {name: exact(value) for name, value in values.items()}


def one_layer_estimates(data: xr.Dataset) -> dict[str, Estimate]:
    """The share of heads that copy, and the share of copying among strong skip-trigrams."""
    return {
        "published-most-copy": exact((data.one_layer_copying > 0.1).mean()),
        "published-copying-pattern": exact(data.one_layer_copies.max()),
    }


def word_estimates(data: xr.Dataset) -> dict[str, Estimate]:
    """Named skip-trigrams that some head has, and heads whose bug is forced."""
    has = data.skip_trigram.values
    named = {"published-skip-trigrams": exact(has.any(axis=1).mean(), len(has))}
    both = data.bug.sel(which="right").values.all(axis=0)
    if not both.any():
        return named
    forced = data.bug.sel(which="wrong").values.all(axis=0)
    return named | {"published-bug": exact(forced[both].mean(), both.sum())}
