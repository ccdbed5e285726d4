import numpy as np
import pytest

from experiments.induction.induction_price.verbatim import longest_repeats, repeat_rates


def test_the_longest_repeat_by_search() -> None:
    texts = np.random.default_rng(0).integers(0, 3, (20, 14))
    found = longest_repeats(texts)
    for text, row in zip(texts.tolist(), found, strict=True):
        for t, longest in enumerate(row):
            # Every stretch that ends at t, held against every earlier end.
            fits = [
                k
                for k in range(1, t + 1)
                for end in range(k - 1, t)
                if text[end - k + 1 : end + 1] == text[t - k + 1 : t + 1]
            ]
            assert longest == max(fits, default=0)


def test_rates_by_hand() -> None:
    text = np.array([[1, 2, 3, 1, 2, 3, 1, 9]])
    # Stretches of 1, 2, 3 and 4 tokens end at indices 3 to 6; the last token is new.
    np.testing.assert_allclose(repeat_rates(text, np.array([1, 3, 5])), [4 / 7, 2 / 7, 0])
    with pytest.raises(ValueError, match=r"windows has 1 tokens each"):
        repeat_rates(text[:, :1], np.array([1]))
    with pytest.raises(ValueError, match=r"lengths=\[0\] must be at least 1"):
        repeat_rates(text, np.array([0]))
