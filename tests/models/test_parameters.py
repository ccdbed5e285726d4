"""Counts of parameters that the sources print."""

import math

import pytest

from circuitax.circuits.paths.expansion import n_paths
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.parameters import transformer_parameters


def count(spec: TransformerSpec, within: str = "") -> int:
    """Numbers in the parameters whose name contains ``within``."""
    named = transformer_parameters(spec)
    return sum(math.prod(p.shape) for name, p in named.items() if within in name)


def test_S0_section_2_3_the_simplified_model_has_six_maps_and_nothing_else() -> None:
    """Assumptions 1 to 4: no MLP, linear maps only, no layer norm, no scale."""
    general = TransformerSpec.simplified(n_heads=1)
    maps = {"W_E", "W_U", *(f"blocks.attention.W_{letter}" for letter in "QKVO")}
    assert set(transformer_parameters(general)) == maps
    assert general.scale == 1.0
    assert general.norm == Norm.none
    full = TransformerSpec(d_mlp=8, norm=Norm.layernorm, biases=True)
    kinds = {name.rpartition(".")[2] for name in transformer_parameters(full)}
    assert {"W_in", "b_Q", "gain"} <= kinds, "what the assumptions leave out"
    assert full.scale == 8**-0.5


@pytest.mark.parametrize("biases", [False, True])
def test_S2_parameter_count_of_heads(biases: bool) -> None:
    """H heads of width d_model / H have as many parameters as one head of width d_model."""
    counts = {
        n_heads: count(TransformerSpec(n_heads=n_heads, n_layers=1, biases=biases), "attention")
        for n_heads in (1, 2, 8, 32)
    }
    assert set(counts.values()) == {4 * 32**2 + (4 * 32 if biases else 0)}
    wide = TransformerSpec(n_heads=8, d_head=32, n_layers=1, biases=biases)
    assert count(wide, "attention") > 7 * counts[1], "only for d_k = d_model / H"


def test_S0_footnote_3_a_model_of_96_layers() -> None:
    """GPT-3 has 96 attention and 96 MLP blocks and 175 billion parameters; its paths are 97^96."""
    spec = TransformerSpec(
        d_vocab=50_257,
        n_ctx=2048,
        n_layers=96,
        n_heads=96,
        d_model=12_288,
        d_mlp=4 * 12_288,
        positions=Positions.learned,
        norm=Norm.layernorm,
        biases=True,
    )
    named = transformer_parameters(spec)
    assert spec.head_width == 128
    assert named["blocks.attention.W_Q"].shape[0] == named["blocks.mlp.W_in"].shape[0] == 96
    assert count(spec) == pytest.approx(175e9, rel=5e-3)
    assert count(spec, "blocks.mlp.W") == 2 * count(spec, "blocks.attention.W")
    assert len(str(n_paths(96, 96))) == 191, "which is why nobody expands it in full"
