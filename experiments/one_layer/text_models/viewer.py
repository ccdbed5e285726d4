"""One prediction of the two-layer model on a text that repeats itself: who looks where, and why."""

from circuitax.display.explanation_page import explanation_viewer
from circuitax.display.viewers import Viewer
from circuitax.lab.runs import WholeRun

MODEL = "layers-2"
TEXT = """\
class Node:
    def __init__(self, name, parent=None):
        self.name = name
        self.parent = pare"""


def view(run: WholeRun) -> list[Viewer]:
    """Attention, direct effects and paths behind the last token of `TEXT`."""
    import jax
    import jax.numpy as jnp

    from circuitax.circuits.explain.explanation import explain
    from circuitax.data.tokenizer import token_text
    from circuitax.kernel.run import run as run_model
    from circuitax.kit.kept_models import KeptModels
    from circuitax.lab.language_model import open_language_model, read_prompt

    kept = KeptModels.of_run(run)
    member = 0 if kept.whole(MODEL) else kept.published(MODEL)[0]
    language = open_language_model(run, MODEL, member)
    ids = read_prompt(language, TEXT)[: language.model.n_ctx]
    found = explain(
        jax.jit(run_model, static_argnames="outputs")(
            language.model, jnp.asarray(ids), outputs=True
        ),
        name=lambda i: token_text(language.tokenizer, i),
    )
    viewer = explanation_viewer(found, f"Two layers of attention, seed {member}, trained on Python")
    return [viewer._replace(title=f"One prediction taken apart: {viewer.title}")]
