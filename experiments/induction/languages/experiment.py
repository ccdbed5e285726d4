"""The same models on English prose: which results on code are results on language.

`text_models` is trained on Python source and its documentation, `english_models` with the same
recipe on the King James Bible with a vocabulary of words. Both are read by the same functions here,
so that every statement about text is settled twice.
"""

from dataclasses import dataclass

import jax
import xarray as xr

from circuitax.kernel.keys import derive
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.checks import require_at_least, require_at_most
from circuitax.kit.kept_models import KeptModels
from circuitax.kit.kept_texts import kept_windows
from circuitax.kit.memory import require_memory
from circuitax.lab.lab import Lab
from circuitax.records.record import Record
from experiments.induction.languages.readings import DEPTHS, FEWEST_WORDS, Readers, Trio, readings
from experiments.induction.shared.two_layers import n_ctx_for, repeated_texts

UPSTREAM = {"python": "text_models", "english": "english_models"}


@dataclass(frozen=True)
class Spec:
    """Amount of text for both languages.

    Attributes:
        windows: Held-out windows of each language, at most those that its models were judged on.
        offsets: Distances at which attention is tabled.
        repeats: Texts of repeated random tokens, on which induction heads would show.
        sources: Rows of the table of skip-trigrams of a head.
        entries: Destinations and outs in a row.
        table_tokens: Most frequent tokens, of which the table is made; another is made of at most
            as many words.
        words: Most frequent words of two tokens that heads might re-join.
    """

    windows: int = 128
    offsets: int = 4
    repeats: int = 16
    sources: int = 4
    entries: int = 4
    table_tokens: int = 320
    words: int = 64

    def __post_init__(self) -> None:
        require_at_least(self, 1, "windows", "offsets", "repeats")
        require_at_least(self, 1, "sources", "entries", "table_tokens")
        require_at_most(self, "table_tokens", "sources", "entries")
        require_at_least(self, 2 * FEWEST_WORDS, "words")


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Read the models of both languages alike.

    Without the package that holds the English text, the record has facts only.
    """
    notes = lab.input(UPSTREAM["english"]).notes
    if "missing" in notes:
        return Record(notes={"missing": notes["missing"]})
    read = Readers.of(spec.offsets, spec.sources, spec.entries, spec.table_tokens, spec.words)
    found, tables = [], {}
    for language, source in UPSTREAM.items():
        trio, sizes = _trio(spec, source, lab)
        require_memory(spec, spec.repeats * (sizes.n_ctx or 1) * sizes.d_vocab, "repeats")
        exam = repeated_texts(derive(key, f"{language}-repeats"), spec.repeats, sizes)
        data, table = readings(language, trio, exam, read, lab)
        # Numbered, so that languages with fewer members are filled up.
        found.append(data.assign_coords(language=language, member=range(data.sizes["member"])))
        tables[language] = table
    about = {"text": notes["text"], "tables": tables}
    return Record(data=xr.concat(found, "language", join="outer"), notes=about)


def _trio(spec: Spec, source: str, lab: Lab) -> tuple[Trio, TransformerSpec]:
    """The models of one language, and the sizes of the deepest.

    Raises:
        ValueError: If the language has fewer tokens than are to be tabled, or its models read too
            few for the offsets.
    """
    upstream = lab.input(source)
    names = tuple(str(name) for name in upstream.data.token.values)
    if spec.table_tokens > len(names):
        raise ValueError(
            f"table_tokens={spec.table_tokens} must be at most d_vocab={len(names)} of {source}"
        )
    kept = KeptModels.of_input(lab, source)
    sizes = kept.spec(DEPTHS[-1])
    n_ctx_for(sizes, spec.offsets)
    trio = Trio(
        {name: kept.members(name, kept.steps[0]) for name in DEPTHS},
        {name: kept.members(name) for name in DEPTHS},
        upstream.data.alive.sel(model=list(DEPTHS)).values == 1,
        kept_windows(lab, source, spec.windows),
        lab.load_arrays("bigram-counts", source=source),
        names,
    )
    return trio, sizes
