"""Three tasks of seeded grammars: a right and a wrong next token after sentences of one length.

Words of one half of the sentences, on which circuits are chosen, are not those of the other.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from circuitax.kit.real_model import RANDOM, REAL, SMALL
from circuitax.models.text_tokenizer import load_tokenizer

AGREEMENT, PRONOUN, OBJECT = TASKS = ("agreement", "pronoun", "indirect object")
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
STATES = ("tired", "happy", "angry", "late", "sad", "busy")
PLACES = ("store", "park", "school", "office")
THINGS = ("drink", "book", "ring", "letter")


class Sentences(NamedTuple):
    """Token ids of the sentences of one task, and of what may follow.

    Attributes:
        tokens: All of one length.
        right: What follows each.
        wrong: Against which it has its lead.
    """

    tokens: Int[np.ndarray, "sentence n_ctx"]
    right: Int[np.ndarray, " sentence"]
    wrong: Int[np.ndarray, " sentence"]


def sentences(weights: str, task: str, n: int, rng: np.random.Generator) -> Sentences:
    """As many sentences of each half of the words, first those of the first half.

    Args:
        weights: A name of `kit.real_model.NAMES`; of the random model words are random tokens.
        task: One of `TASKS`.
        n: Sentences of each half, at least 1.
        rng: Draws the words.

    Raises:
        ValueError: If the task is unknown.
    """
    if task not in TASKS:
        raise ValueError(f"task={task!r} must be one of {', '.join(TASKS)}")
    word = _words(weights)
    rows, right, wrong = [], [], []
    for half in (0, 1):
        for _ in range(n):
            text, yes, no = _draw(task, half, rng)
            rows.append([word(part) for part in text])
            right.append(word(yes))
            wrong.append(word(no))
    return Sentences(np.array(rows), np.array(right), np.array(wrong))


def _draw(task: str, half: int, rng: np.random.Generator) -> tuple[list[str], str, str]:
    """One sentence in words, and what may follow."""
    if task == AGREEMENT:
        pairs = NOUNS[half::2]
        subject, other = rng.choice(len(pairs), 2, replace=False)
        number, others = rng.integers(2, size=2)
        text = ["The", f" {pairs[subject][number]}", " near", " the", f" {pairs[other][others]}"]
        verbs = (" is", " are")
        return text, verbs[number], verbs[1 - number]
    pairs = NAMES[half::2]
    if task == PRONOUN:
        sex = rng.integers(2)
        name = f" {pairs[rng.integers(len(pairs))][sex]}"
        text = ["Then", name, " was", f" {rng.choice(STATES)}", " because"]
        return text, (" he", " she")[sex], (" he", " she")[1 - sex]
    names = [f" {name}" for pair in pairs for name in pair]
    io, subject = (names[i] for i in rng.choice(len(names), 2, replace=False))
    first, second = (io, subject) if rng.integers(2) else (subject, io)
    text = ["When", first, " and", second, " went", " to", " the", f" {rng.choice(PLACES)}", ","]
    text += [subject, " gave", " a", f" {rng.choice(THINGS)}", " to"]
    return text, io, subject


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
