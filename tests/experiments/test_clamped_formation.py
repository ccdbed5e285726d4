"""Clamped formation: texts by their definition, given parts against NumPy, dates by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import circuitax as cx
from circuitax.kernel.positions import Positions
from experiments.induction.clamped_formation.pairs import PairSource, answer_loss, given
from experiments.induction.clamped_formation.readings import over_half, product_late, solved

SIZES = cx.TransformerSpec(
    d_vocab=9, d_vocab_out=3, n_ctx=5, n_layers=2, n_heads=2, d_model=8, positions=Positions.rotary,
    final_norm=False,
)  # fmt: skip


def test_texts_ask_for_the_label_of_one_of_two_exemplars() -> None:
    texts = np.asarray(PairSource(3000, 6, 3)(jax.random.key(0)))
    first, second, asked = texts[:, :2], texts[:, 2:4], texts[:, 4:]
    for column in (0, 2, 4):
        assert set(texts[:, column]) == set(range(3, 9))
        assert set(texts[:, column + 1]) == {0, 1, 2}
    assert (first != second).all()
    is_first = (asked == first).all(axis=1)
    assert (is_first ^ (asked == second).all(axis=1)).all()
    assert abs(is_first.mean() - 0.5) < 0.04
    # Nothing but the text tells the label: every class has every label alike.
    table = np.histogram2d(asked[:, 0], asked[:, 1], bins=(np.arange(2.5, 9), np.arange(-0.5, 3)))
    assert abs(table[0] / 3000 - 1 / 18).max() < 0.02


@pytest.mark.parametrize("parts", [(1, 1, 1), (0, 1, 1), (1, 0, 1), (0, 0, 1), (0, 1, 0)])
def test_given_parts_by_hand(parts: tuple[int, int, int]) -> None:
    with jax.enable_x64(True):
        model = cx.init(jax.random.key(1), SIZES)
        texts = np.asarray(PairSource(4, 6, 3)(jax.random.key(2)))
        flags = jnp.array(parts, bool)
        for text in texts:
            run = cx.run(model, text[:-1])
            layer1 = np.asarray(run.trace.patterns[0]).mean(axis=0)
            if parts[0]:
                layer1 = np.eye(5, k=-1)
            scores = [4 * layer1[j] @ (text[:5] == text[4]) for j in (1, 3)]
            weights = np.exp(scores) / np.exp(scores).sum()
            if parts == (0, 1, 0):
                # Only values are the model's: the pattern of the last place is known.
                streams = np.asarray(run.trace.streams)[1]
                block = model.blocks.attention
                mixed = weights @ streams[[1, 3]]
                write = sum(
                    mixed @ np.asarray(block.W_V[1, h]) @ np.asarray(block.W_O[1, h])
                    for h in range(2)
                )
                logits = (streams[4] + write) @ np.asarray(model.W_U)
                expected = np.exp(logits)[text[5]] / np.exp(logits).sum()
            else:
                attended = weights
                if not parts[1]:
                    clamp = given(model, jnp.asarray(text[:-1]), jnp.array([parts[0], 0, 0], bool))
                    attended = np.asarray(cx.run(model, text[:-1], clamp).trace.patterns)
                    attended = attended[1][:, 4, [1, 3]].mean(axis=0)
                share = np.bincount(text[[1, 3]], attended, minlength=3) + 1e-4
                expected = share[text[5]] / share.sum()
            found = answer_loss(model, jnp.asarray(text)[None], flags)
            np.testing.assert_allclose(np.exp(-found), expected, rtol=1e-8)


def made(curves: dict[str, list[float]], parts: list[list[float]]) -> xr.Dataset:
    loss = np.array(list(curves.values()))[..., None].repeat(2, axis=-1)
    part = np.broadcast_to(np.array(parts).T[None, :, None], (*loss.shape, 3))
    return xr.Dataset(
        {
            "loss": (("cell", "step", "member"), loss),
            "part_loss": (("cell", "step", "member", "left"), part),
            "alive": (("cell", "member"), np.ones((len(curves), 2), bool)),
        },
        {
            "cell": list(curves),
            "step": np.arange(5),
            "tokens": ("step", 100 * np.arange(5)),
            "left": ["previous", "matching", "copying"],
        },
    )


def test_dates_and_plateaus_are_read_from_losses() -> None:
    guess = float(np.log(2))
    data = made(
        {
            "nothing": [1.6, guess, guess, 0.9 * guess, 0.1],
            "copying": [guess, guess, 0.3, 0.2, 0.1],
            "previous, matching, copying": [0.0] * 5,
        },
        [[1, 0, 0, 0, 0], [1, 0.8, 0.6, 0.4, 0], [1, 0, 0, 0, 0]],
    )
    assert solved(data, "nothing").value == 400
    assert solved(data, "copying").value == 200
    # The loss is a guess's at three later measurements, and with copying at one.
    assert over_half(data, "copying").value == pytest.approx(100 - 300 / 2)
    # The product of the parts is half done where matching is, at step 3.
    assert product_late(data, "parts").value == -100
