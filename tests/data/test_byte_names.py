"""Tokens that are parts of characters are told apart; all others are what they decode to."""

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from circuitax.data.tokenizer import token_text


@pytest.fixture(scope="module")
def byte_level() -> Tokenizer:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merged = {"âĨ": 256, "aâĨ": 257}  # two of the three bytes of an arrow
    vocabulary = {letter: i for i, letter in enumerate(letters)} | merged
    tokenizer = Tokenizer(models.BPE(vocabulary, [("â", "Ĩ"), ("a", "âĨ")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def test_every_byte_has_a_text_of_its_own(byte_level: Tokenizer) -> None:
    texts = {token_text(byte_level, i) for i in range(256)}
    plain = {chr(b) for b in range(128)}
    assert texts == plain | {f"\\x{b:02x}" for b in range(128, 256)}


def test_parts_of_characters_are_shown_by_their_bytes(byte_level: Tokenizer) -> None:
    assert byte_level.decode([256]) == "\ufffd"
    assert token_text(byte_level, 256) == r"\xe2\x86" == repr("→".encode())[2:10]
    assert token_text(byte_level, 257) == r"a\xe2\x86"


def test_a_tokenizer_that_names_bytes_keeps_its_names() -> None:
    tokenizer = Tokenizer(models.BPE({"<0xE2>": 0, "one": 1}, [], byte_fallback=True))
    tokenizer.decoder = decoders.ByteFallback()
    assert token_text(tokenizer, 0) == "<0xE2>" and token_text(tokenizer, 1) == "one"
