"""The same models on English prose: which results on code are results on language.

`text_models` is trained on Python source and its documentation, `english_models` with the same
recipe on the King James Bible with a vocabulary of words. Both are read by the same functions here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Bool, Integer

from circuitax.circuits.losses import term_losses
from circuitax.circuits.weights.heads import token_ov
from circuitax.circuits.weights.spectra import copying_score
from circuitax.circuits.weights.token_tables import head_tables, rejoining
from circuitax.config.ranges import Positive
from circuitax.data.tables import table_losses
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as run_model
from circuitax.kit.kept_models import KeptModels, kept_windows
from circuitax.lab.lab import Lab
from circuitax.training.language import text_losses
from experiments.induction.shared.two_layers import AXES

UPSTREAM = {"python": "text_models", "english": "english_models"}
DEPTHS = ("layers-0", "layers-1", "layers-2")
# Split words on which a head is chosen, and on which it is judged.
FEWEST_WORDS = 5


@dataclass(frozen=True)
class Spec:
    """Amount of text for both languages.

    Attributes:
        windows: Held-out windows of each language, at most those that its models were judged on.
        sources: Rows of the table of skip-trigrams of a head.
        entries: Destinations and outs in a row.
        table_tokens: Most frequent tokens that are words, of which the table is made.
        words: Most frequent words of two tokens that heads might re-join.
    """

    windows: Positive = 128
    sources: Annotated[int, "[1, table_tokens]"] = 4
    entries: Annotated[int, "[1, table_tokens]"] = 4
    table_tokens: Positive = 320
    words: Annotated[int, "[10, inf)"] = 64


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Read the models of both languages alike.

    Without the package that holds the English text, the record has facts only.
    """
    notes = lab.input(UPSTREAM["english"]).notes
    if "missing" in notes:
        return xr.Dataset(attrs={"missing": notes["missing"]})
    found, tables = [], {}
    for name, source in UPSTREAM.items():
        data, table = _of_language(name, source, spec, lab)
        # Numbered, so that languages with fewer members are filled up.
        found.append(data.assign_coords(language=name, member=range(data.sizes["member"])))
        if table:
            tables[name] = {"words": table}
    about = {"text": notes["text"], "tables": tables}
    return xr.concat(found, "language", join="outer").assign_attrs(about)


def _of_language(name: str, source: str, spec: Spec, lab: Lab) -> tuple[xr.Dataset, dict[str, Any]]:
    """What is read of one language, and its table of words; none where too few tokens are words."""
    upstream, kept = lab.input(source).data, KeptModels.of_input(lab, source)
    depths = {depth: kept.members(depth) for depth in DEPTHS}
    windows = kept_windows(lab, source, spec.windows)
    counts = lab.load_arrays("bigram-counts", source=source)["train"]
    names = [str(token) for token in upstream.token.values]
    found = lab.stage(f"{name}-windows", _terms, depths["layers-2"], windows)
    losses = [
        lab.stage(f"{name}-loss-{depth}", _loss, models, windows)
        for depth, models in depths.items()
    ]
    data = xr.Dataset(
        {each: (AXES[each], values) for each, values in found.items()}
        | {
            "loss_of_depth": (("model", "member"), np.stack(losses)),
            "alive": upstream.alive.sel(model=list(DEPTHS)).astype(float),
            "uniform": np.log(depths["layers-2"].d_vocab),
        }
        | table_losses(counts, np.asarray(windows)),
        coords={"model": list(DEPTHS)},
    )
    halves, one = _halves(split_words(names, counts, spec.words)), depths["layers-1"]
    for end, models in {"": one, "_at_init": kept.members("layers-1", kept.steps[0])}.items():
        scores = lab.stage(f"{name}-one{end}", _heads, models, *halves)
        data = data.assign({f"{each}{end}": (("member", "cell"), v) for each, v in scores.items()})
    words = whole_words(names, counts, spec.table_tokens)
    if len(words) < max(spec.sources, spec.entries):
        return data, {}
    of_first = one[0], jnp.asarray(words), spec.sources, spec.entries
    return data, _in_words(lab.stage(f"{name}-words", _tables, *of_first), names)


def _in_words(table: dict[str, Array], names: Sequence[str]) -> dict[str, Any]:
    """The words of a table of skip-trigrams."""
    word = np.vectorize(lambda i: names[i], otypes=[object])
    columns = ("sources", "destinations", "outs")
    return {name: word(np.asarray(table[name])).tolist() for name in columns}


def _halves(pieces: tuple[np.ndarray, np.ndarray]) -> tuple[Any, Any]:
    """Words to choose a head by and words to judge it by; None where too few are split."""
    if len(pieces[0]) < 2 * FEWEST_WORDS:
        return None, None
    chosen_by, judged_by = (tuple(jnp.asarray(ids[i::2]) for ids in pieces) for i in range(2))
    return chosen_by, judged_by


# Compiled once for both languages where their sizes agree.
_tables = jax.jit(head_tables, static_argnums=(2, 3))


@jax.jit
@partial(jax.vmap, in_axes=(0, None))
def _terms(model: Model, texts: Array) -> dict[str, Array]:
    """Mean losses of terms of two layers."""

    def one(text: Array) -> dict[str, Array]:
        terms = term_losses(run_model(model, text))
        losses = {"order_loss": terms.order, "first_order_loss": terms.first_order}
        return {name: each.mean(axis=1) for name, each in losses.items()}

    return jax.tree.map(lambda x: x.mean(axis=0), jax.lax.map(one, texts))


@jax.jit
@partial(jax.vmap, in_axes=(0, None))
def _loss(model: Model, texts: Array) -> Array:
    return text_losses(model, texts).mean()


@jax.jit
@partial(jax.vmap, in_axes=(0, None, None))
def _heads(model: Model, chosen_by: Any, judged_by: Any) -> dict[str, Array]:
    """Copying of every head of one layer, and how well it re-joins split words."""
    ov = jax.tree.map(lambda f: f[0] if f.ndim == 4 else f, token_ov(model))
    found = {"ov_copying": copying_score(ov)}
    for name, words in (("rejoin_choice", chosen_by), ("rejoin", judged_by)):
        none = jnp.full(model.n_heads, jnp.nan)
        found[name] = none if words is None else rejoining(model, *words)
    return found


def split_words(
    names: Sequence[str], counts: Integer[np.ndarray, "v v"], n_words: int
) -> tuple[np.ndarray, np.ndarray]:
    """Ids of both pieces of the most frequent words of two tokens, the most frequent first.

    A word is a space and letters, then letters. Each second piece stands for one word only, the
    most frequent one that ends with it. ``counts[a, b]`` says how often b follows a.
    """
    begins, goes_on = _pieces(names)
    words = np.where(begins[:, None] & goes_on[None, :], counts, 0)
    first = words.argmax(axis=0)
    often = words.max(axis=0)
    second = np.argsort(-often, kind="stable")[: min(n_words, int((often > 0).sum()))]
    return first[second], second


def whole_words(
    names: Sequence[str], counts: Integer[np.ndarray, "v v"], n_words: int
) -> Integer[np.ndarray, " words"]:
    """Ids of the most frequent tokens that are a word: a space and letters, which mostly end there.

    A word ends where the next token does not begin with a letter; ``" con"``, which nearly always
    goes on, is a piece of words.
    """
    begins, _ = _pieces(names)
    ends = np.array([not name[:1].isalpha() for name in names])
    often = counts.sum(axis=1)
    words = begins & (often > 0) & (2 * counts[:, ends].sum(axis=1) >= often)
    return np.argsort(-np.where(words, often, 0), kind="stable")[: min(n_words, int(words.sum()))]


def _pieces(names: Sequence[str]) -> tuple[Bool[np.ndarray, " v"], Bool[np.ndarray, " v"]]:
    """Tokens that begin a word, and tokens that can continue one."""
    begins = np.array([name[:1] == " " and name[1:].isalpha() for name in names])
    return begins, np.array([name.isalpha() for name in names])
