"""What a record about SmolLM2 cannot say, and why."""

import pytest

from experiments.real_models.shared.model_facts import model_read, not_smollm2


@pytest.mark.parametrize(
    ("weights", "missing", "why"),
    [
        ("smollm2", "", ""),
        ("smollm2", "install it", "nothing to read: install it"),
        ("random", "", "weights=random: a small random model, and not SmolLM2"),
    ],
)
def test_why_there_is_nothing_to_say(weights: str, missing: str, why: str) -> None:
    assert not_smollm2({"weights": weights, "missing": missing}) == why
    named = model_read({"weights": weights})
    assert named == ("A small random model" if weights == "random" else "SmolLM2-135M")
