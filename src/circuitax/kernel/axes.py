"""The glossary: every axis and every weight, named once.

Axis names are used in jaxtyping shapes, in records and in figures. Rows are tokens: a stream is
``[n_ctx, d_model]``, a map acts as ``x @ W``, and heads come first. The sources write tokens as
columns; their matrices are the transposes of ours, except that ``W_QK`` is the same in both.
"""

from collections.abc import Mapping
from types import MappingProxyType

AXES: Mapping[str, str] = MappingProxyType(
    {
        "member": "one model of an ensemble: seed, density, learning rate, ...",
        "batch": "samples of one draw",
        "d_vocab": "tokens of the vocabulary",
        "n_ctx": "positions of a text",
        "dest": "positions that attend (queries); row of a pattern",
        "src": "positions attended to (keys); column of a pattern",
        "n_layers": "layers of a transformer",
        "n_heads": "attention heads of a layer",
        "d_model": "coordinates of the residual stream",
        "d_head": "coordinates of one head's queries and keys",
        "d_value": "coordinates of one head's values",
        "d_mlp": "hidden units of a transformer's MLP",
        "n_extra": "hidden layers of a transformer's MLP after its first",
        "d_in": "inputs of a dense layer",
        "d_out": "outputs of a dense layer",
        "n_features": "features of a toy model",
        "n_hidden": "hidden units of a toy model",
        "n_sets": "correlated or anticorrelated sets of features",
        "n_max": "room of a cache, in positions",
        "cell": "one setting of a sweep inside a run",
    }
)

WEIGHTS: Mapping[str, str] = MappingProxyType(
    {
        "W_E": "[d_vocab, d_model] embedding; row v is token v",
        "W_pos": "[n_ctx, d_model] position vectors",
        "W_Q": "[n_heads, d_model, d_head] queries, q = x @ W_Q",
        "W_K": "[n_heads, d_model, d_head] keys",
        "W_V": "[n_heads, d_model, d_value] values",
        "W_O": "[n_heads, d_value, d_model] what a head writes",
        "W_U": "[d_model, d_vocab] unembedding; column v is the direction of token v",
        "W_QK": "W_Q @ W_K.T, [d_model, d_model], dest x src; equal to the sources' W_Q^T W_K",
        "W_OV": "W_V @ W_O, [d_model, d_model], read x write; the sources' W_O W_V transposed",
        "W_in": "[d_model, d_mlp] first map of an MLP",
        "W_gate": "[d_model, d_mlp] the gate of a gated MLP",
        "W_hidden": "[n_extra, d_mlp, d_mlp] maps between the hidden layers of a deeper MLP",
        "W_out": "[d_mlp, d_model] last map of an MLP",
        "smear": "[n_heads] logit of a key's weight on itself; the rest is on its predecessor",
        "W": "[n_hidden, n_features] of a tied toy model, or [d_in, d_out] of a dense layer",
        "b": "bias of a toy model",
    }
)
