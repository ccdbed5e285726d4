"""The text of one token, distinct from all others even for incomplete characters."""

from functools import cache

from tokenizers import Tokenizer

_UNREADABLE = "\ufffd"


def token_text(tokenizer: Tokenizer, token: int) -> str:
    r"""The decoded text of a token, or its bytes where those are no whole characters."""
    text = str(tokenizer.decode([token], skip_special_tokens=False))
    if _UNREADABLE not in text:
        return text
    name = str(tokenizer.id_to_token(token))
    if not set(name) <= _bytes().keys():
        return name
    return bytes(_bytes()[letter] for letter in name).decode("utf-8", "backslashreplace")


@cache
def _bytes() -> dict[str, int]:
    """The byte of each letter in byte-level names: printable ones stand for themselves."""
    shown = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), 256)}
    others = [byte for byte in range(256) if byte not in shown]
    return {chr(b): b for b in shown} | {chr(256 + i): b for i, b in enumerate(others)}
