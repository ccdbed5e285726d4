"""Tasks of seeded grammars: pairs of sentences of one length that differ in what is meant.

What is right after one sentence of a pair is wrong after the other, so that no answer that is the
same for all of them leads on the mean. Nouns and names of one half of the pairs, on which circuits
are chosen, are not those of the other.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise, permutations, product
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from circuitax.kit.real_model import RANDOM, REAL, SMALL
from circuitax.models.pretrained import load_tokenizer

AGREEMENT, PRONOUN, OBJECT = "agreement", "pronoun", "indirect object"
CAPITAL, SUCCESSOR, INDUCTION = "capital", "successor", "induction"
TASKS = (CAPITAL, OBJECT, AGREEMENT, PRONOUN, SUCCESSOR, INDUCTION)
# Singular and plural.
NOUNS = (
    *(("key", "keys"), ("book", "books"), ("teacher", "teachers"), ("picture", "pictures")),
    *(("tree", "trees"), ("boy", "boys"), ("doctor", "doctors"), ("car", "cars")),
    *(("window", "windows"), ("farmer", "farmers"), ("letter", "letters"), ("dog", "dogs")),
    *(("river", "rivers"), ("student", "students"), ("house", "houses"), ("girl", "girls")),
)
# Men and women.
NAMES = (
    *(("John", "Mary"), ("Tom", "Anna"), ("James", "Kate"), ("Paul", "Sarah")),
    *(("Mark", "Jane"), ("David", "Emma"), ("Peter", "Laura"), ("George", "Alice")),
    *(("Henry", "Lucy"), ("Jack", "Rachel"), ("Robert", "Susan"), ("Simon", "Helen")),
)
STATES = (
    *("tired", "happy", "angry", "late", "sad"),
    *("busy", "hungry", "nervous", "proud", "afraid"),
)
PLACES = ("store", "park", "school", "office")
THINGS = ("drink", "book", "ring", "letter")
# Countries and capitals.
CAPITALS = (
    *(("France", "Paris"), ("Italy", "Rome"), ("Germany", "Berlin"), ("Spain", "Madrid")),
    *(("Russia", "Moscow"), ("Japan", "Tokyo"), ("China", "Beijing"), ("England", "London")),
    *(("Egypt", "Cairo"), ("Greece", "Athens"), ("Austria", "Vienna"), ("Poland", "Warsaw")),
    *(("Portugal", "Lisbon"), ("Ireland", "Dublin"), ("Sweden", "Stockholm"), ("Norway", "Oslo")),
    *(("Denmark", "Copenhagen"), ("Iran", "Tehran"), ("Iraq", "Baghdad"), ("Kenya", "Nairobi")),
    *(("Cuba", "Havana"), ("Peru", "Lima"), ("Chile", "Santiago"), ("Syria", "Damascus")),
)
# What comes in an order.
ORDERS = (
    ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"),
    (
        *("January", "February", "March", "April", "May", "June"),
        *("July", "August", "September", "October", "November", "December"),
    ),
    tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
)
SIDES = 2

# Words of a sentence, and the two that may follow, the right one first.
Sentence = tuple[list[str], str, str]


class Pairs(NamedTuple):
    """Token ids of the pairs of sentences of one task, and of what may follow.

    Attributes:
        tokens: All of one length.
        right: What follows each; wrong after the other sentence of the pair.
        wrong: Against which it has its lead.
    """

    tokens: Int[np.ndarray, "half pair side n_ctx"]
    right: Int[np.ndarray, "half pair side"]
    wrong: Int[np.ndarray, "half pair side"]


def drawn_pairs(weights: str, task: str, n: int, rng: np.random.Generator) -> Pairs:
    """As many pairs of each half of the words, none twice; of a random model words are random."""
    word = _words(weights)
    halves = []
    for half in (0, 1):
        every = list(_GRAMMARS[task](half))
        chosen = [every[i] for i in rng.choice(len(every), n, replace=False)]
        halves.append(
            [
                [([word(part) for part in text], word(yes), word(no)) for text, yes, no in pair]
                for pair in chosen
            ]
        )
    columns = ([[[side[i] for side in pair] for pair in half] for half in halves] for i in range(3))
    return Pairs(*map(np.array, columns))


def most_pairs(tasks: Sequence[str]) -> int:
    """The pairs of one half of the task that has the fewest."""
    return min(len(list(_GRAMMARS[task](half))) for task in tasks for half in (0, 1))


def _agreements(half: int) -> Iterator[tuple[Sentence, ...]]:
    """Subject in both numbers; another noun between it and the verb."""
    verbs = (" is", " are")
    for subject, other in permutations(NOUNS[half::2], 2):
        for between in other:
            yield tuple(
                (
                    ["The", f" {subject[number]}", " near", " the", f" {between}"],
                    verbs[number],
                    verbs[1 - number],
                )
                for number in range(SIDES)
            )


def _pronouns(half: int) -> Iterator[tuple[Sentence, ...]]:
    """A man or a woman."""
    pronouns = (" he", " she")
    for names, state in product(NAMES[half::2], STATES):
        yield tuple(
            (
                ["Then", f" {names[sex]}", " was", f" {state}", " because"],
                pronouns[sex],
                pronouns[1 - sex],
            )
            for sex in range(SIDES)
        )


def _indirect_objects(half: int) -> Iterator[tuple[Sentence, ...]]:
    """One of two people gives, the first named or the second."""
    names = [f" {name}" for pair in NAMES[half::2] for name in pair]
    for both, place, thing in product(permutations(names, 2), PLACES, THINGS):
        yield tuple(
            (
                [
                    *("When", both[0], " and", both[1], " went", " to", " the", f" {place}", ","),
                    *(both[giver], " gave", " a", f" {thing}", " to"),
                ],
                both[1 - giver],
                both[giver],
            )
            for giver in range(SIDES)
        )


def _capitals(half: int) -> Iterator[tuple[Sentence, ...]]:
    """One of two countries."""
    for pair in combinations(CAPITALS[half::2], 2):
        yield tuple(
            (
                ["The", " capital", " of", f" {country}", " is"],
                f" {capital}",
                f" {other}",
            )
            for (country, capital), (_, other) in (pair, pair[::-1])
        )


def _successors(half: int) -> Iterator[tuple[Sentence, ...]]:
    """One of two days, months, numbers or letters, and what comes after it."""
    for order in ORDERS:
        for pair in combinations(list(pairwise(order))[half::2], 2):
            yield tuple(
                (["First", f" {now}", " and", " then", " came"], f" {then}", f" {other}")
                for (now, then), (_, other) in (pair, pair[::-1])
            )


def _inductions(half: int) -> Iterator[tuple[Sentence, ...]]:
    """A word comes again; what stood behind it is one of two."""
    words = [f" {singular}" for singular, _ in NOUNS[half::2]]
    for again, *both, third, fourth in permutations(words, 5):
        yield tuple(
            ([again, both[side], third, fourth, again], both[side], both[1 - side])
            for side in range(SIDES)
        )


_GRAMMARS: dict[str, Callable[[int], Iterator[tuple[Sentence, ...]]]] = {
    AGREEMENT: _agreements,
    PRONOUN: _pronouns,
    OBJECT: _indirect_objects,
    CAPITAL: _capitals,
    SUCCESSOR: _successors,
    INDUCTION: _inductions,
}


def _words(weights: str) -> Callable[[str], int]:
    """The token of a word."""
    if weights == RANDOM:  # no grammar has more words than the model has tokens
        seen: dict[str, int] = {}
        return lambda text: seen.setdefault(text, len(seen) % SMALL.d_vocab)
    tokenizer = load_tokenizer(REAL)

    def token(text: str) -> int:
        ids = tokenizer.encode(text).ids
        if len(ids) != 1:
            raise ValueError(f"word {text!r} must be one token, is {len(ids)}")
        return int(ids[0])

    return token
