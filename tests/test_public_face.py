"""What ``import circuitax as cx`` gives: every name, lazily, with a page of help."""

import pydoc
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import circuitax as cx
from circuitax.kernel.norm import Norm


def test_every_name_exists_is_typed_and_is_in_the_table_of_contents() -> None:
    assert dir(cx) == cx.__all__ == sorted(cx.__all__)
    assert 30 <= len(cx.__all__) <= 46
    for name in cx.__all__:
        assert getattr(cx, name) is not None
        assert re.search(rf"\b{name}\b", cx.__doc__), f"{name} is not in the docstring"
    text = Path(cx.__file__).read_text(encoding="utf-8")
    imported = text.split("if TYPE_CHECKING:")[1].split("_PLACES")[0]
    for name in cx.__all__:
        assert re.search(rf"\b{name}\b", imported), f"{name} is unknown to type checkers"


def test_help_reads_like_a_table_of_contents() -> None:
    page = pydoc.render_doc(cx, renderer=pydoc.plaintext)
    assert page.index("Analyses of a run") < page.index("Algebra")
    assert "the largest paths to one logit, and a bound on all others" in page


def test_importing_it_imports_nothing_else() -> None:
    code = "import sys, circuitax as cx; dir(cx); sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    code = "import sys, circuitax as cx; cx.Record; cx.Claim; sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_floors_are_namespaces_of_their_modules() -> None:
    code = (
        "import circuitax as cx\n"
        "assert 'weights' in dir(cx.circuits) and 'ensemble' in dir(cx.training)\n"
        "assert cx.circuits.weights.heads.token_ov is cx.token_ov\n"
        "assert cx.superposition.geometry.geometry.norms and cx.projection.laws.ratio_cdf\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    for namespace in (cx, cx.circuits):
        with pytest.raises(AttributeError, match="has no attribute 'legder'"):
            namespace.legder  # noqa: B018


def test_a_model_is_run_read_and_saved_through_the_face(tmp_path, x64: None) -> None:
    spec = cx.TransformerSpec(
        d_vocab=11, n_ctx=8, n_layers=2, n_heads=2, d_model=8, norm=Norm.layernorm, biases=True
    )
    model = cx.init(jax.random.key(1), spec)
    run = cx.run(model, [1, 4, 2, 1, 4], outputs=True)
    paths = cx.expand(run)
    np.testing.assert_allclose(paths.remainder, 0, atol=1e-12)
    book = cx.ledger(run, token=2, minus=3, k=3)
    lead = run.logits[-1, 2] - run.logits[-1, 3]
    np.testing.assert_allclose(book.found + book.remainder + book.bias, lead, atol=1e-12)
    parts = cx.components(run)
    np.testing.assert_allclose(parts.remainder, 0, atol=1e-12)
    cx.save_pretrained(model, tmp_path / "saved")
    again = cx.run(cx.load_pretrained(tmp_path / "saved"), run.tokens)
    np.testing.assert_allclose(again.logits, run.logits, atol=1e-5)
    models = jax.vmap(lambda key: cx.init(key, spec))(jax.random.split(jax.random.key(0), 3))
    scores = jax.vmap(cx.composition_scores)(models)
    assert scores.shape[0] == 3 and bool(jnp.isfinite(scores[:, :, 0, :, 1]).all())
    assert not np.allclose(scores[0, :, 0, :, 1], scores[1, :, 0, :, 1])
