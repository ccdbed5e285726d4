"""The nearest name to one that does not exist, for messages: in a class, a package, the library."""

import difflib
from collections.abc import Iterable
from typing import Any

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
    "activation_patching": "cx.patch_effects",
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
    "attn_scores": "run.scores",
    "cfg": "model.spec",
    "config": "model.spec",
    "direct_logit_attribution": "cx.component_logits",
    "embed": "model.W_E",
    "exact_optimum": "cx.find_optimum",
    "from_pretrained": "cx.load_pretrained",
    "head_ablation": "cx.ablation_effects",
    "hidden_states": "run.streams",
    "jl_epsilon": "circuitax.projection.laws.jl_epsilon",
    "johnson_lindenstrauss": "cx.jl_dimension",
    "johnson_lindenstrauss_min_dim": "cx.jl_dimension",
    "lm_cross_entropy_loss": "cx.token_losses",
    "load": "cx.load_pretrained",
    "logit_attrs": "cx.component_logits",
    "patch_paths": "cx.patch_path",
    "path_patching": "cx.path_effects, and of one pair cx.patch_path,",
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
    "qk_attribution": "circuitax.circuits.score_terms.score_terms(run, layer, head)",
    "qk_attributions": "circuitax.circuits.score_terms.score_terms(run, layer, head)",
    "head_loadings": "circuitax.circuits.paths.components.attribute_sources(run, directions)",
    "attribution_patching": "circuitax.circuits.patching.head_gradients",
    "logit_lens": "run.lens()",
    "get_act_patch_attn_head_out_all_pos": "cx.patch_effects(…, site='head_outputs')",
    "patch_heads": "cx.patch_effects(…, site='head_outputs')",
    "resid_mid": "run.mid",
    "mlp_pre": "run.pre",
    "mlp_post": "run.post",
    "mlp_out": "run.mlp_outputs",
    "HeadStack": "circuitax.kernel.weights.HeadStack",
    "copying_score": "circuitax.circuits.weights.spectra.copying_score",
    "copying_accuracy": "circuitax.circuits.weights.token_tables.copying_accuracy",
    "skip_trigrams": "circuitax.circuits.skip_trigrams",
    "summarise": "circuitax.projection.stream.summarise",
}


def nearest(name: str, allowed: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` for the nearest of ``allowed``, or nothing when none is near."""
    allowed = list(allowed)
    names = difflib.get_close_matches(name, allowed, n=1, cutoff=0.6)
    if not names:  # a right name under a wrong parent, or no parent at all
        leaf = name.rpartition(".")[2]
        names = [path for path in allowed if path.rpartition(".")[2] == leaf][:1]
    return f" (did you mean {names[0]!r}?)" if names else ""


def suggestion(name: str, allowed: Iterable[str], prefix: str) -> str:
    """Ending of the message about an unknown name: the nearest of ``allowed``."""
    if name.startswith("_"):  # Python and notebooks ask for these, and want no advice
        return ""
    if name in ELSEWHERE:
        return f"; it is {ELSEWHERE[name]} here"
    near = [prefix + one for one in difflib.get_close_matches(name, allowed, n=3, cutoff=0.6)]
    return f"; did you mean {' or '.join(near)}?" if near else ""


def unknown_attribute(value: Any, name: str, prefix: str) -> AttributeError:
    """The error for an attribute that an object does not have, with the nearest that it has."""
    public = [known for known in dir(type(value)) if not known.startswith("_")]
    hint = suggestion(name, public, prefix)
    return AttributeError(f"{type(value).__name__} has no attribute {name!r}{hint}")
