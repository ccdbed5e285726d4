"""The nearest name to one that does not exist, for messages: in a class, a package, the library."""

import difflib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent
_DEFINED = re.compile(r"^(?:def|class) ([A-Za-z]\w*)", re.MULTILINE)
# Names of other libraries, mostly TransformerLens, and the name here.
ELSEWHERE = {
    "ActivationCache": "cx.Run",
    "FactoredMatrix": "cx.Chain",
    "HookedTransformer": "cx.load_pretrained",
    "HookedTransformerConfig": "cx.TransformerSpec",
    "OV": "cx.token_ov(model)",
    "QK": "cx.token_qk(model)",
    "RandomProjection": "cx.project",
    "ToyModel": "cx.TiedWeights",
    "W_OV": "model.W_V @ model.W_O",
    "W_QK": "model.W_Q and model.W_K",
    "accumulated_resid": "run.streams",
    "activation_patching": "cx.patch",
    "add_hook": "cx.run(model, tokens, edit), with an edit from cx.patch_head and alike,",
    "all_pairs": "cx.distortion",
    "attention": "run.patterns",
    "attn_probs": "run.patterns",
    "b_K": "model.blocks.attention.b_K",
    "b_O": "model.blocks.attention.b_O",
    "b_Q": "model.blocks.attention.b_Q",
    "b_V": "model.blocks.attention.b_V",
    "b_in": "model.blocks.mlp.b_in",
    "b_out": "model.blocks.mlp.b_out",
    "cache": "run.trace",
    "attn_scores": "circuitax.circuits.score_terms.head_scores(run, layer, head)",
    "cfg": "model.spec",
    "config": "model.spec",
    "direct_logit_attribution": "cx.component_logits",
    "embed": "model.W_E",
    "exact_optimum": "cx.find_optimum",
    "from_pretrained": "cx.load_pretrained",
    "head_ablation": "cx.ablate_each",
    "hidden_states": "run.streams",
    "johnson_lindenstrauss": "cx.jl_dimension",
    "johnson_lindenstrauss_min_dim": "cx.jl_dimension",
    "lm_cross_entropy_loss": "cx.token_losses",
    "load": "cx.load_pretrained",
    "logit_attrs": "cx.component_logits",
    "patch_paths": "cx.patch_path",
    "path_patching": "cx.patch_path",
    "random_projection": "cx.project",
    "resid_post": "run.streams",
    "resid_pre": "run.streams",
    "residual": "run.streams",
    "run_with_cache": "cx.run",
    "run_with_hooks": "cx.run(model, tokens, edit), with an edit from cx.patch_head and alike,",
    "save": "cx.save_pretrained",
    "stack_heads": "run.head_outputs",
    "svd": "cx.Chain",
    "to_tokens": "cx.load_tokenizer(source).encode(text).ids",
    "top_paths": "cx.ledger",
    "toy_model": "cx.TiedWeights",
    "zero_ablation": "cx.ablate_head",
    "scores": "circuitax.circuits.score_terms.head_scores(run, layer, head)",
}


def nearest(name: str, allowed: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` for the nearest of ``allowed``, or nothing when none is near."""
    allowed = list(allowed)
    names = difflib.get_close_matches(name, allowed, n=1, cutoff=0.6)
    if not names:  # a right name under a wrong parent, or no parent at all
        leaf = name.rpartition(".")[2]
        names = [path for path in allowed if path.rpartition(".")[2] == leaf][:1]
    return f" (did you mean {names[0]!r}?)" if names else ""


def suggestion(name: str, allowed: Iterable[str], prefix: str, alike: float = 0.7) -> str:
    """Ending of the message about an unknown name: the nearest name.

    Args:
        name: The name asked for.
        allowed: Names of the class or package that was asked.
        prefix: What stands before these names, such as ``"cx."``.
        alike: How like a name of the rest of the library must be, in [0, 1], to be meant.
    """
    if name in ELSEWHERE:
        return f"; it is {ELSEWHERE[name]} here"
    here = [prefix + near for near in difflib.get_close_matches(name, allowed, n=2, cutoff=0.6)]
    places: dict[str, list[str]] = {}
    for module, defined in definitions():
        places.setdefault(defined, []).append(module)
    # What the package itself has is likelier meant than what is like it elsewhere.
    near = difflib.get_close_matches(name, places, n=2, cutoff=max(alike, 0.85 if here else 0.0))
    there = [f"{module}.{one}" for one in near for module in places[one]]
    leaves = {text.rpartition(".")[2] for text in here}
    found = [*here, *(text for text in there if text.rpartition(".")[2] not in leaves)]
    return f"; did you mean {' or '.join(found[:3])}?" if found else ""


def unknown_attribute(value: Any, name: str, prefix: str) -> AttributeError:
    """The error for an attribute that an object does not have, with the nearest that it has.

    Args:
        value: The object.
        name: The attribute asked for.
        prefix: What stands before its attributes, such as ``"run."``.
    """
    # Python and notebooks ask for names such as __array__ and _repr_png_, and want no advice.
    public = [known for known in dir(type(value)) if not known.startswith("_")]
    hint = "" if name.startswith("_") else suggestion(name, public, prefix, alike=1.0)
    return AttributeError(f"{type(value).__name__} has no attribute {name!r}{hint}")


def definitions() -> Iterator[tuple[str, str]]:
    """Module and name of every public function and class of the library, read from its source."""
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        if not path.stem.startswith("_"):
            for found in _DEFINED.finditer(path.read_text(encoding="utf-8")):
                yield ".".join(parts), found[1]
