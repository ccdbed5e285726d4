import json

import pytest

from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec, from_plain, to_plain


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


def test_what_cannot_be_read_is_named() -> None:
    with pytest.raises(ValueError, match="field 'n_layer' must be one of"):
        from_plain({"n_layer": 2})
    with pytest.raises(ValueError, match="norm='sideways' must be one of none, "):
        from_plain({"norm": "sideways"})
