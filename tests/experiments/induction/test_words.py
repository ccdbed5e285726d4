import numpy as np

from experiments.induction.languages.words import split_words, whole_words

NAMES = [" to", "day", " the", "re", " ", "9", " a"]


def test_words_of_two_pieces_the_most_frequent_first() -> None:
    counts = np.zeros((7, 7), int)
    counts[0, 1] = 3  # " to" "day"
    counts[6, 1] = 2  # a rarer word with the same second piece
    counts[2, 3] = 5  # " the" "re"
    counts[2, 0] = counts[1, 3] = counts[2, 5] = counts[4, 3] = 50  # two words, no beginning, …
    first, second = split_words(NAMES, counts, 5)
    assert first.tolist() == [2, 0] and second.tolist() == [3, 1]
    assert split_words(NAMES, counts, 1)[1].tolist() == [3]


def test_words_of_one_token_the_most_frequent_first() -> None:
    counts = np.zeros((7, 7), int)
    counts[0, 2] = counts[0, 4] = 3  # " to" ends before a space,
    counts[0, 1] = 6  # ... in half of its places
    counts[2, 4] = 1  # " the" ends and never goes on, but is rarer
    counts[6, 5], counts[6, 3] = 40, 41  # " a" mostly goes on
    counts[1, 4] = counts[4, 5] = 90  # no word begins with "day", and " " has no letter
    assert whole_words(NAMES, counts, 5).tolist() == [0, 2]
    assert whole_words(NAMES, counts, 1).tolist() == [0]
    counts[0, 1] = 7
    assert whole_words(NAMES, counts, 5).tolist() == [2]
