"""Impossible values of the language experiments are refused by name, before anything runs."""

import pytest

from circuitax.data.synthetic import ChainedMapSource, RepeatedSource
from circuitax.data.text import TextSpec
from circuitax.kernel.spec import TransformerSpec
from circuitax.training.optim import OptimSpec
from experiments.induction.induction_phase import experiment as induction_phase
from experiments.induction.text_induction import experiment as text_induction
from experiments.one_layer.bigram import experiment as bigram
from experiments.one_layer.text_models import experiment as text_models
from experiments.paths.path_explosion import experiment as path_explosion
from experiments.paths.score_scale import experiment as score_scale

MODEL = TransformerSpec(d_vocab=32, n_ctx=32)
TEXT_MODEL = TransformerSpec(d_vocab=512, n_ctx=64)
OPTIM = OptimSpec(steps=40)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": 0}, "seeds=0"),
        ({"texts": 0}, "texts=0"),
        ({"measure_every": 7}, "measure_every=7 must divide optim.steps=40"),
        ({"model": TransformerSpec(d_vocab=33)}, "model.d_vocab=33 must equal task.d_vocab=32"),
        ({"task": RepeatedSource(length=40)}, "task.length=40 must be at most model.n_ctx=32"),
        (
            {"model": TransformerSpec(d_vocab=32, n_ctx=32, start_token=3)},
            "start_token=3 must be null: task draws all of its d_vocab=32 symbols",
        ),
        ({"task": RepeatedSource(min_period=1)}, "task.min_period=1"),
        ({"task": RepeatedSource(max_period=31)}, "max_period=31"),
        (
            {
                "task": RepeatedSource(d_vocab=12, max_period=16),
                "model": TransformerSpec(d_vocab=12, n_ctx=32),
            },
            "max_period=16 must be at most d_vocab=12",
        ),
    ],
)
def test_induction_phase(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        induction_phase.Spec(**{"model": MODEL, "optim": OPTIM} | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch": 0}, "batch=0"),
        ({"seeds": 0}, "seeds=0"),
        ({"full_seeds": 9}, "full_seeds=9 must be from 0 to seeds=8"),
        ({"full_learning_rate": 0.0}, "full_learning_rate=0.0 must be positive"),
        ({"sample_tokens": 62, "prompt": "def"}, "hold the boundary, the 3 bytes of the prompt"),
        ({"windows": 0}, "windows=0"),
        ({"sample_tokens": 0}, "sample_tokens=0"),
        ({"measure_every": 7}, "measure_every=7 must divide optim.steps=40"),
        ({"task": TextSpec(d_vocab=300)}, "model.d_vocab=512 must equal task.d_vocab=300"),
        ({"full": TransformerSpec(d_vocab=300)}, "full.d_vocab=300 must equal task.d_vocab=512"),
        ({"sample_tokens": 65}, "model.n_ctx=64 must be at least 8 and hold"),
        ({"model": TransformerSpec(d_vocab=512, n_layers=0)}, "model.n_layers=0"),
        (
            {"model": TransformerSpec(d_vocab=512, n_ctx=64, start_token=1)},
            "full.start_token=None must equal model.start_token=1",
        ),
        (
            {"model": TransformerSpec(d_vocab=512, n_ctx=80)},
            "full.n_ctx=64 must be at least model.n_ctx=80",
        ),
        (
            {
                "model": TransformerSpec(d_vocab=300, n_ctx=602),
                "full": TransformerSpec(d_vocab=300, n_ctx=700),
                "task": TextSpec(d_vocab=300),
            },
            "model.n_ctx=602 must be at most 2 d_vocab . 1 = 601",
        ),
        ({"depth_rates": (1.0, 0.0)}, r"depth_rates=\(1.0, 0.0\) must all be positive"),
        ({"depth_rates": ()}, r"depth_rates=\(\) must hold at least one rate"),
        ({"halving_seeds": 9}, "halving_seeds=9 must be from 1 to seeds=8"),
        ({"halvings": -1}, "halvings=-1 must be at least 0"),
        ({"halvings": 30}, "halvings=30 must leave whole steps"),
    ],
)
def test_text_models(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        text_models.Spec(**{"model": TEXT_MODEL, "full": TEXT_MODEL, "optim": OPTIM} | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"widths": (0.5,)}, r"widths=\(0.5,\) must end with 1"),
        ({"widths": (0.5, 0.25, 1.0)}, "must hold 1 increasing values or more"),
        ({"widths": ()}, r"widths=\(\) must hold 1 increasing values or more"),
        ({"widths": (0.0, 1.0)}, "must all be above 0 and at most 1"),
        ({"widths": (1.0, 2.0)}, "must all be above 0 and at most 1"),
        ({"seeds": 0}, "seeds=0 must be at least 1"),
        ({"strength": 0.0}, "strength=0.0 must be positive"),
    ],
)
def test_bigram(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bigram.Spec(**change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"widths": (4,)}, r"widths=\(4,\) must hold 2 increasing values or more"),
        ({"widths": (8, 4)}, r"widths=\(8, 4\) must hold 2 increasing values or more"),
        ({"widths": (0, 4)}, r"widths=\(0, 4\) must all be at least 1"),
        ({"seeds": 0}, "seeds=0"),
        ({"texts": 0}, "texts=0"),
        ({"model": TransformerSpec(d_vocab=32, n_layers=0)}, "model.n_layers=0"),
        ({"model": TransformerSpec(d_vocab=33)}, "model.d_vocab=33 must equal task.d_vocab=32"),
        ({"task": RepeatedSource(length=33)}, "task.length=33 must be at most model.n_ctx=32"),
    ],
)
def test_score_scale(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        score_scale.Spec(**{"model": MODEL} | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": 0}, "seeds=0"),
        ({"primer": 0}, "primer=0"),
        ({"primer": 40}, "primer=40 must be below optim.steps=40"),
        ({"measure_every": 15}, "measure_every=15 must divide primer=20"),
        ({"primer": 30, "measure_every": 15}, "measure_every=15 must divide optim.steps=40"),
        ({"max_period": 64}, "max_period=64 must satisfy"),
        ({"repeated_share": 1.5}, "repeated_share=1.5 must be from 0 to 1"),
        (
            {
                "model": TransformerSpec(d_vocab=300, n_ctx=700),
                "task": TextSpec(d_vocab=300),
                "max_period": 301,
            },
            "max_period=301 must be at most model.d_vocab=300",
        ),
        ({"task": TextSpec(d_vocab=300)}, "model.d_vocab=512 must equal task.d_vocab=300"),
    ],
)
def test_text_induction(change: dict[str, object], message: str) -> None:
    usual = {"model": TEXT_MODEL, "optim": OPTIM, "primer": 20, "measure_every": 20}
    with pytest.raises(ValueError, match=message):
        text_induction.Spec(**usual | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_depth": 1}, "max_depth=1 must be from 2 to 8"),
        ({"max_depth": 9}, "max_depth=9 must be from 2 to 8"),
        ({"seeds": 0}, "seeds=0 must be at least 1"),
        ({"texts": 0}, "texts=0 must be at least 1"),
        ({"ledgers": 0}, "ledgers=0 must be at least 1"),
        ({"ledgers": 33}, "ledgers=33 must be at most texts=32"),
        ({"chunk": 15}, "chunk=15 must divide optim.steps=40"),
        ({"chunk": 0}, "chunk=0 must divide optim.steps=40"),
        ({"model": TransformerSpec(d_vocab=33)}, "model.d_vocab=33 must equal task.d_vocab=66"),
        ({"model": TransformerSpec(d_vocab=66, n_ctx=21)}, "n_ctx=21"),
        ({"task": ChainedMapSource(n_steps=2)}, "task.n_steps=2 must be at least 3"),
    ],
)
def test_path_explosion(change: dict[str, object], message: str) -> None:
    usual = {"model": TransformerSpec(d_vocab=66, n_ctx=22), "optim": OPTIM, "chunk": 20}
    with pytest.raises(ValueError, match=message):
        path_explosion.Spec(**usual | change)
