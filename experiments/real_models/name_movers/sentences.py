"""Sentences with an indirect object, of a seeded grammar, all of one length in tokens.

"When Mary and John went to the store, John gave a drink to": the subject comes twice, the indirect
object once, and is what comes next. Both orders of the names occur. The names of one half of the
sentences are not those of the other.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from circuitax.kit.real_model import RANDOM, REAL, SMALL
from circuitax.models.pretrained import load_tokenizer

NAMES = (
    *("Mary", "John", "Tom", "Anna", "James", "Kate", "Paul", "Sarah", "Mark", "Jane", "David"),
    *("Emma", "Peter", "Laura", "Simon", "Alice", "George", "Lucy", "Henry", "Rachel", "Jack"),
    *("Susan", "Robert", "Helen"),
)
PLACES = ("store", "park", "school", "office", "station", "garden", "house", "market")
OBJECTS = ("drink", "book", "ring", "letter", "key", "ball", "gift", "map")
# Words of the grammar, with the places of the names: two in front, the subject again behind.
_FRAME = "When{0} and{1} went to the{place},{2} gave a{object} to"
_TEMPLATE = 15  # tokens of a random sentence


class Sentences(NamedTuple):
    """Token ids of sentences, and the positions of their names.

    Attributes:
        tokens: Up to the last word before the indirect object.
        names: The indirect object and the subject.
        at: Positions of the indirect object, of the subject, and of the subject again.
    """

    tokens: Int[np.ndarray, "sentence n_ctx"]
    names: Int[np.ndarray, "sentence 2"]
    at: Int[np.ndarray, "sentence 3"]


def sentences(weights: str, n: int, rng: np.random.Generator) -> Sentences:
    """As many sentences of each half of the names, first those of the first half.

    Args:
        weights: A name of `kit.real_model.NAMES`; of the random model words are random tokens.
        n: Sentences of each half, at least 1.
        rng: Draws words and order.
    """
    if weights == RANDOM:
        ids = rng.permutation(SMALL.d_vocab)
        names, places, objects = ids[:8], ids[8:12], ids[12:16]
        frame = rng.choice(ids[16:], _TEMPLATE)
    else:
        names, places, objects, frame = _vocabulary()
    name_slots, place_slot, object_slot = (1, 3, 9), 7, 12
    rows, chosen, at = [], [], []
    for half in np.split(names[: len(names) // 2 * 2], 2):
        for _ in range(n):
            row = np.array(frame)
            io, subject = rng.choice(half, 2, replace=False)
            first, second, again = name_slots
            if rng.integers(2):
                first, second = second, first
            row[[first, second, again]] = io, subject, subject
            row[place_slot], row[object_slot] = rng.choice(places), rng.choice(objects)
            rows.append(row)
            chosen.append([io, subject])
            at.append([first, second, again])
    return Sentences(np.array(rows), np.array(chosen), np.array(at))


def _vocabulary() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Words that are one token of SmolLM2's, and the tokens of the frame with any of them."""
    tokenizer = load_tokenizer(REAL)

    def single(words: tuple[str, ...]) -> np.ndarray:
        ids = [tokenizer.encode(f" {word}").ids for word in words]
        return np.array([each[0] for each in ids if len(each) == 1])

    names, places, objects = single(NAMES), single(PLACES), single(OBJECTS)
    word = {"place": f" {PLACES[0]}", "object": f" {OBJECTS[0]}"}
    text = _FRAME.format(" Mary", " John", " John", **word)
    return names, places, objects, np.array(tokenizer.encode(text).ids)
