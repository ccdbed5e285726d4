"""Locations of published models, and the papers' numbers besides the values of claims."""

from typing import Any

NAMES = {
    "source": "callummcdougall/attn_only_2L_half",
    "one_layer": "NeelNanda/Attn_Only_1L512W_C4_Code",
}
# Where the commands in the messages put what they fetch.
PLACES = {
    "source": "weights/two_layers",
    "one_layer": "weights/one_layer",
    "tokens": "text.npy",
    "tokenizer": "tokenizer.json",
}
# The two-layer repository holds a .pth file and no settings.
SETTINGS: dict[str, dict[str, Any] | None] = {
    "source": {
        "n_layers": 2,
        "n_heads": 12,
        "d_model": 768,
        "d_head": 64,
        "n_ctx": 2048,
        "d_vocab": 50278,
        "attn_only": True,
        "normalization_type": None,
        "positional_embedding_type": "shortformer",
    },
    "one_layer": None,
}
# ARENA 1.2: shares of tokens that heads raise most, or have among the five they raise most.
PRINTED = {
    "arena-copying-top-1": 0.3079,
    "arena-copying-top-5": 0.4773,
    "arena-both-top-1": 0.956,
    "arena-both-top-5": 0.98,
}
# (source, destination, out) that the framework paper names, as GPT-type tokenizers write them.
SKIP_TRIGRAMS = (
    (" back", " and", " forth"),
    (" eat", " and", " drink"),
    (" far", " and", " away"),
    ("open", '","', "rb"),
    ("open", '","', "wb"),
    ("def", "(", "self"),
    (" for", " in", " range"),
    (" for", " in", " enumerate"),
    ("left", "\\", "right"),
    ("lambda", "\\", "lambda"),
    ("nbsp", "&", "nbsp"),
    ("tbody", "<", "td"),
    ("github", "/", "issues"),
    ("github", "/", "blob"),
    ("github", "/", "pull"),
    ("github", "/", "master"),
    (" Israel", " K", "nes"),
    (" Ralph", " R", "alph"),
)
BUG = {
    "right": ((" keep", " in", " mind"), (" keep", " at", " bay")),
    "wrong": ((" keep", " in", " bay"), (" keep", " at", " mind")),
}
