"""Specs of transformers: what cannot be, and plain values and back."""

import json

import pytest

from circuitax.kernel.mlp import Activation
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec, from_plain, to_plain

SOLU = {"d_mlp": 8, "activation": Activation.solu_ln}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"d_vocab": 0}, "d_vocab=0 must be at least 1"),
        ({"n_layers": -1}, "n_layers=-1 must be at least 0"),
        ({"d_mlp": 0}, "d_mlp=0 must be at least 1"),
        ({"n_heads": 5}, "n_heads=5 must divide d_model=32"),
        ({"n_ctx": None}, "n_ctx=None must be set for positions=shortformer"),
        ({"positions": Positions.rotary, "d_head": 3}, "d_head=3 must be even"),
        ({"positions": Positions.sinusoidal, "d_model": 33, "d_head": 8}, "d_model=33 must be"),
        ({"gated": True}, "gated=True needs d_mlp"),
        ({"d_mlp": 8, "mlp_depth": 0}, "mlp_depth=0 must be at least 1"),
        ({"mlp_depth": 2}, "mlp_depth=2 needs d_mlp, which is None"),
        ({"d_mlp": 8, "mlp_depth": 2, "gated": True}, "mlp_depth=2 must be 1 for gated=True"),
        (SOLU | {"gated": True}, "gated=True must be False for activation=solu_ln"),
        (SOLU | {"norm_eps": 1e-6}, "norm_eps=1e-06 must be 1e-05 for activation=solu_ln"),
        ({"start_token": 64}, r"start_token=64 must lie in \[0, d_vocab=64\)"),
        ({"init_scale": -1.0}, "init_scale=-1.0 must not be negative"),
        ({"norm_eps": 0.0}, "norm_eps=0.0 must be positive"),
        ({"rotary_base": -1.0}, "rotary_base=-1.0 must be positive"),
        ({"score_scale": float("inf")}, "score_scale=inf must be finite"),
    ],
)
def test_impossible_transformers(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TransformerSpec(**options)


def test_S0_def_12_simplified_transformers_have_no_other_option() -> None:
    with pytest.raises(ValueError, match="n_heads=3 must divide d_model=32"):
        TransformerSpec.simplified(n_heads=3)
    spec = TransformerSpec.simplified(d_value=5, biases=True)
    assert (spec.norm, spec.positions, spec.d_mlp) == (Norm.none, Positions.none, None)
    assert (spec.value_width, spec.biases, spec.n_ctx) == (5, True, None)
    with pytest.raises(ValueError, match="d_mlp=8 must be left out: a simplified transformer has"):
        TransformerSpec.simplified(d_mlp=8)


def test_E13_score_scale_is_one_in_S0_and_stated_elsewhere() -> None:
    assert TransformerSpec.simplified().scale == 1.0
    assert TransformerSpec.simplified(score_scale=0.5).scale == 0.5
    spec = TransformerSpec(d_head=16)
    assert spec.scale == 0.25
    assert spec.replace(score_scale=0.5).scale == 0.5


def test_a_misspelt_option_is_told_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"no 'position' \(did you mean 'positions'\?\)"):
        TransformerSpec(d_vocab=5, position="learned")


def test_round_trip_through_json() -> None:
    spec = TransformerSpec(
        d_vocab=9, n_ctx=None, positions=Positions.rotary, norm=Norm.rmsnorm, d_mlp=8, d_value=3
    )
    plain = json.loads(json.dumps(to_plain(spec)))
    assert from_plain(plain) == spec
    assert isinstance(from_plain(plain).norm, Norm)
    assert from_plain(plain, n_layers=0).n_layers == 0


def test_a_younger_option_is_written_where_it_is_set_only() -> None:
    spec = TransformerSpec(norm=Norm.layernorm)
    assert "post_ln" not in to_plain(spec)
    post = spec.replace(post_ln=True)
    assert to_plain(post)["post_ln"] is True and from_plain(to_plain(post)) == post
