"""Papers named by the source of a claim; docs/bibliography.md has their authors and titles.

This is apart from `records.papers`, which claims import: what is said here settles none anew.
"""

import re

# What the source of a claim says when it names a paper; a reader chooses one in the report.
_NAMED = {
    "Framework paper": "framework paper",
    "Induction-heads paper": "induction-heads paper",
    "Toy-models paper": "toy-models paper|[Tt]oy [Mm]odels? of [Ss]uperposition|Replication in JAX",
    "S0, Some Structures in Transformer Architectures": r"\bS0\b",
    "S1, the linear-algebra post": r"\bS1\b",
    "S2, the attention chapter": r"\bS2\b",
    "S4, the notes on the framework paper": r"\bS4\b",
    "ARENA": "ARENA",
    "Braun et al. 2025": "Braun et al",
    "Bushnaq, Braun and Sharkey 2025": "Bushnaq",
    "Chanin et al. 2025": "Chanin",
    "Chen et al. 2023": "Chen et al",
    "Dasgupta and Gupta 2003": "Dasgupta",
    "Geva et al. 2021": "Geva",
    "Gilbert 1952, Varshamov 1957": "Gilbert",
    "Goldowsky-Dill et al. 2023": "Goldowsky-Dill",
    "Henighan et al. 2023": "Henighan",
    "Levenshtein 1982": "Levenshtein",
    "Li, Hastie and Church 2006": "Hastie",
    "Liu, Liu and Gore 2025": "Liu, Liu and Gore",
    "Meng et al. 2022": "Meng",
    "Wang et al. 2022": "Wang et al",
    "Mu and Viswanath 2018": "Viswanath",
    "Nanda et al. 2023 (progress measures)": "progress-measures",
    "Prieto and others 2026": r"2603\.09972",
    "Rajamanoharan et al. 2024": "Rajamanoharan",
    "Sharkey, Braun and Millidge 2022": "Millidge",
    "Shlegeris 2023": "Shlegeris",
    "Welch 1974": "Welch",
}
NO_PAPER = "no paper"


def named(source: str) -> tuple[str, ...]:
    """The papers named by the source of a claim, `NO_PAPER` alone if there are none.

    Args:
        source: `Claim.source`.
    """
    found = (title for title, words in _NAMED.items() if re.search(words, source))
    return tuple(found) or (NO_PAPER,)


def order(title: str) -> int:
    """Index of a title from `named` in a list of papers; `NO_PAPER` is the last."""
    return [*_NAMED, NO_PAPER].index(title)
