"""Published attention-only models: what is read from the record."""

import numpy as np
import xarray as xr

from circuitax.records.sample import NotRun, Sample, exactly

# How to get a model, with the folder into which the command puts it.
HOW = {
    "source": "needs weights of callummcdougall/attn_only_2L_half, not at hand: `hf download "
    "callummcdougall/attn_only_2L_half --local-dir weights/two_layers` (the name from memory; a "
    ".pth file needs torch), then source=weights/two_layers",
    "one_layer": "needs weights of NeelNanda/Attn_Only_1L512W_C4_Code, not at hand: `hf download "
    "NeelNanda/Attn_Only_1L512W_C4_Code --local-dir weights/one_layer` (the name from memory), "
    "then one_layer=weights/one_layer",
}
# Sizes of the published ones, beside their tokens.
SIZES = {"source": {"n_heads": 12, "d_head": 64}, "one_layer": {}}
TEXT = " and tokens=text.npy, a text in its tokens"
WORDS = " and tokenizer=tokenizer.json"
MANY_TOKENS = 40_000  # the published models have about 50,000


def heads_shuffled(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """The heads of each layer in another order, the same in all variables; the named ones stay."""
    if "prefix" not in data:
        return data
    first, second = (rng.permutation(data.sizes["head"]) for _ in range(2))
    orders = np.stack([first, second])
    changed = {
        "prefix_without": data.prefix_without.values[first][:, second],
        "composition": data.composition.values[:, first][:, :, second],
        "matching": data.matching.values[second],
    }
    for name in {"prefix", "previous", "copying", "text_prefix"} & set(data.data_vars):
        changed[name] = np.take_along_axis(data[name].values, orders, axis=1)
    return data.assign({name: data[name].copy(data=values) for name, values in changed.items()})


WORLDS = {"heads shuffled": heads_shuffled}


def copied(data: xr.Dataset, heads: str, k: int) -> Sample:
    """Share of tokens that heads have among the k they raise most."""
    return exactly(_of(data, "source", "prefix").copied.sel(heads=heads, k=k))


def named_heads(data: xr.Dataset) -> dict[str, Sample]:
    """How far the named heads lead the others, and the induction score nearer to the printed."""
    data = _of(data, "source", "prefix")
    inducers = data.attrs["inducers"]
    looks = data.previous.values[0]
    prefix = data.prefix.values[1, inducers]
    return {
        "arena-previous": exactly(_lead(looks, data.attrs["previous"])),
        "arena-induction": exactly(_lead(data.prefix.values, 1, inducers)),
        "arena-induction-score": exactly(prefix[np.argmin(np.abs(prefix - 0.68))]),
    }


def working_together(data: xr.Dataset) -> dict[str, Sample]:
    """What the induction heads lose without each head of layer 0, and their composition with it."""
    data = _of(data, "source", "prefix")
    previous, inducers = data.attrs["previous"], data.attrs["inducers"]
    left = data.prefix_without.values[:, inducers] / data.prefix.values[1, inducers]
    K, V = (data.composition.sel(kind=kind).values for kind in "KV")
    others = np.delete(left, previous, axis=0)
    return {
        "arena-without-previous": exactly(left[previous].max() - others.min()),
        "arena-k-composition": exactly(_lead(K, previous, inducers)),
        "arena-v-composition": exactly(V[:, inducers].max() - K[previous, inducers].min()),
    }


def corner(data: xr.Dataset) -> Sample:
    """Smaller of copying and same-matching: the worst induction head less the best other one."""
    data = _of(data, "source", "prefix")
    both = np.minimum(data.copying.values[1], data.matching.values)
    return exactly(_lead(both, data.attrs["inducers"]))


def on_text(data: xr.Dataset) -> Sample:
    """Prefix score on text: the worst induction head less the best other head."""
    data = _of(data, "source", "text_prefix", TEXT)
    return exactly(_lead(data.text_prefix.values, 1, data.attrs["inducers"]))


def nats(data: xr.Dataset) -> dict[str, Sample]:
    """Nats that orders of terms and single heads of layers save on text."""
    data = _of(data, "source", "order_loss", TEXT)
    saved = -np.diff(data.order_loss.values)
    _, first, second, both = data.first_order_loss.values[:4]
    return {
        "published-order-lead": exactly(saved[0] - saved[1]),
        "published-order-1": exactly(saved[0]),
        "published-order-2": exactly(saved[1]),
        "published-layer-lead": exactly(first - second),
        "published-layer-0": exactly(second - both),
        "published-layer-1": exactly(first - both),
    }


def share_that_copies(data: xr.Dataset) -> Sample:
    """Share of heads with a positive eigenvalue score of the OV circuit."""
    return exactly((_of(data, "one_layer", "one_layer_copying").one_layer_copying > 0).mean())


def copying_pattern(data: xr.Dataset) -> Sample:
    """Of the strongest skip-trigrams of a head, share of the pattern [b] … [a] → [b], the best."""
    return exactly(_of(data, "one_layer", "one_layer_copying").one_layer_copies.max())


def named_words(data: xr.Dataset) -> dict[str, Sample]:
    """Share of the named skip-trigrams that some head has, and of heads with both bugs."""
    data = _of(data, "one_layer", "words_are_tokens", WORDS)
    if not data.words_are_tokens:
        raise NotRun("the named words are not whole tokens of this tokenizer")
    has = data.skip_trigram.values
    return {
        "published-skip-trigrams": exactly(has.any(axis=1).mean(), len(has)),
        "published-bug": exactly(data.bug.all(["which", "pair"]).sum()),
    }


def _of(data: xr.Dataset, model: str, needs: str, besides: str = "") -> xr.Dataset:
    """The data, where a model is there, and what is read of it, and has the published sizes."""
    if needs not in data:
        raise NotRun(HOW[model] + besides)
    sizes = data.attrs[model]
    if sizes["d_vocab"] < MANY_TOKENS or not SIZES[model].items() <= sizes.items():
        raise NotRun(f"measured, but the model at hand, {sizes}, is not the published one")
    return data


def _lead(scores: np.ndarray, *named: int | list[int]) -> float:
    """The least of the named scores less the greatest of all others."""
    inside = np.zeros(scores.shape, bool)
    inside[named] = True
    return float(scores[inside].min() - scores[~inside].max())
