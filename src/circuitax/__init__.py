"""circuitax: differentiable circuit experiments in JAX.

    import circuitax as cx

    model = cx.load_pretrained("folder")        # or cx.init(key, cx.TransformerSpec(...))
    run = cx.run(model, tokens, outputs=True)   # logits, and a trace of the whole forward pass
    print(cx.ledger(run, token=5))              # the paths that raise token 5, with a proof

A model is a pytree: ``jit``, ``vmap`` and ``grad`` take it as they take an array. Every function
takes the model or the run first, then what is asked, then options by name. A name is imported when
it is first used.

Models
    Model             named weights with one static spec; ``Model.of(...)`` makes one from arrays
    TransformerSpec   sizes and options of a model
    init              fresh weights from a key and a spec
    load_pretrained   a model of the Hub, a GGUF file, ``"smollm2"``, or TransformerLens's format
    save_pretrained   a model written in TransformerLens's format
    load_tokenizer    the tokenizer that comes with it
    forward           the forward pass of one text: logits and trace
    run               the same for a text or a batch, kept together as a ``Run``
    Run               model, tokens, logits, trace
    Interventions     edits of a forward pass and frozen values; the next four make them
    patch_pattern     one head attends as told
    patch_head        one head writes as told
    patch_stream      the stream before one layer is as told
    freeze            all patterns, norm scales and gates of a run held
    generate          a text continued by a model
    fold_norms        the same model with gains and offsets of its norms in its weights

Analyses of a run
    expand            all paths from tokens to logits, whose sum is the logits
    ledger            the largest paths to one logit, and a bound on all others
    components        what every head and MLP adds to every logit
    term_losses       the loss of the paths of each order
    token_losses      next-token losses in nats
    patch             the stream of one text put into another, everywhere
    ablate_each       what removing each head or MLP costs
    explain           one prediction: what adds up to its logit, by which paths, and what
                      each head looked at
    explanation_page  the same as a page of HTML

Analyses of a model
    composition        Q-, K- and V-composition of all pairs of heads, each beside its exact null
    composition_scores the scores alone
    induction_scores   prefix matching and previous-token scores on repeated texts
    token_qk, token_ov the full QK and OV circuits of every head, factored

Algebra
    Kron              A ⊗ W, a map of where to look and what to write
    Chain             a low-rank map kept as its factors

Superposition and projection
    TiedWeights       the toy model of superposition
    expected_loss     its expected loss, exactly
    find_optimum      the optimum over many starts
    dimensionality    D_i, the share of a dimension that each feature has
    project           points through a random map
    all_pairs         the distortion of all distances, in blocks

Results
    Record            labelled data of a run of an experiment
    Estimate          a number with its interval and n
    Claim             a published statement with what is expected of it

Whole floors, with their modules as attributes: ``cx.circuits``, ``cx.superposition``,
``cx.projection``, ``cx.train``.
"""

from typing import TYPE_CHECKING

from circuitax.lazy import lazy_names

if TYPE_CHECKING:
    import circuitax.circuits as circuits
    import circuitax.projection as projection
    import circuitax.superposition as superposition
    import circuitax.training as train
    from circuitax.circuits.attention.induction_scores import induction_scores
    from circuitax.circuits.explain.explanation import explain
    from circuitax.circuits.interventions.patching import ablate_each, patch
    from circuitax.circuits.ledger.ledger import ledger
    from circuitax.circuits.losses.term_losses import term_losses
    from circuitax.circuits.paths.components import component_logits as components
    from circuitax.circuits.paths.expansion import expand
    from circuitax.circuits.weights.composition import composition, composition_scores
    from circuitax.circuits.weights.folding import fold_norms
    from circuitax.circuits.weights.heads import token_ov, token_qk
    from circuitax.figures.explanation_page import explanation_page
    from circuitax.kernel.chain import Chain
    from circuitax.kernel.edits import patch_head, patch_pattern, patch_stream
    from circuitax.kernel.forward import forward
    from circuitax.kernel.generate import generate
    from circuitax.kernel.interventions import Interventions, freeze
    from circuitax.kernel.kron import Kron
    from circuitax.kernel.losses import token_losses
    from circuitax.kernel.model import Model
    from circuitax.kernel.run import Run, run
    from circuitax.kernel.spec import TransformerSpec
    from circuitax.kernel.weights import TiedWeights
    from circuitax.models.pretrained import load_pretrained, save_pretrained
    from circuitax.models.text_tokenizer import load_tokenizer
    from circuitax.models.transformer import init_model as init
    from circuitax.projection.distortion import all_pairs
    from circuitax.projection.maps import project
    from circuitax.records.claims import Claim
    from circuitax.records.estimate import Estimate
    from circuitax.records.record import Record
    from circuitax.superposition.geometry.geometry import dimensionality
    from circuitax.superposition.loss.expected_loss import expected_loss
    from circuitax.superposition.optimum.optimum import find_optimum

_PLACES = {
    "Chain": "circuitax.kernel.chain",
    "Claim": "circuitax.records.claims",
    "Estimate": "circuitax.records.estimate",
    "Interventions": "circuitax.kernel.interventions",
    "Kron": "circuitax.kernel.kron",
    "Model": "circuitax.kernel.model",
    "Record": "circuitax.records.record",
    "Run": "circuitax.kernel.run",
    "TiedWeights": "circuitax.kernel.weights",
    "TransformerSpec": "circuitax.kernel.spec",
    "ablate_each": "circuitax.circuits.interventions.patching",
    "all_pairs": "circuitax.projection.distortion",
    "circuits": "circuitax.circuits.*",
    "components": "circuitax.circuits.paths.components:component_logits",
    "composition": "circuitax.circuits.weights.composition",
    "composition_scores": "circuitax.circuits.weights.composition",
    "dimensionality": "circuitax.superposition.geometry.geometry",
    "expand": "circuitax.circuits.paths.expansion",
    "explain": "circuitax.circuits.explain.explanation",
    "explanation_page": "circuitax.figures.explanation_page",
    "expected_loss": "circuitax.superposition.loss.expected_loss",
    "find_optimum": "circuitax.superposition.optimum.optimum",
    "fold_norms": "circuitax.circuits.weights.folding",
    "forward": "circuitax.kernel.forward",
    "freeze": "circuitax.kernel.interventions",
    "generate": "circuitax.kernel.generate",
    "induction_scores": "circuitax.circuits.attention.induction_scores",
    "init": "circuitax.models.transformer:init_model",
    "ledger": "circuitax.circuits.ledger.ledger",
    "load_pretrained": "circuitax.models.pretrained",
    "save_pretrained": "circuitax.models.pretrained",
    "load_tokenizer": "circuitax.models.text_tokenizer",
    "patch": "circuitax.circuits.interventions.patching",
    "patch_head": "circuitax.kernel.edits",
    "patch_pattern": "circuitax.kernel.edits",
    "patch_stream": "circuitax.kernel.edits",
    "project": "circuitax.projection.maps",
    "projection": "circuitax.projection.*",
    "run": "circuitax.kernel.run",
    "superposition": "circuitax.superposition.*",
    "term_losses": "circuitax.circuits.losses.term_losses",
    "token_losses": "circuitax.kernel.losses",
    "token_ov": "circuitax.circuits.weights.heads",
    "token_qk": "circuitax.circuits.weights.heads",
    "train": "circuitax.training.*",
}
__all__ = [
    "Chain",
    "Claim",
    "Estimate",
    "Interventions",
    "Kron",
    "Model",
    "Record",
    "Run",
    "TiedWeights",
    "TransformerSpec",
    "ablate_each",
    "all_pairs",
    "circuits",
    "components",
    "composition",
    "composition_scores",
    "dimensionality",
    "expand",
    "expected_loss",
    "explain",
    "explanation_page",
    "find_optimum",
    "fold_norms",
    "forward",
    "freeze",
    "generate",
    "induction_scores",
    "init",
    "ledger",
    "load_pretrained",
    "load_tokenizer",
    "patch",
    "patch_head",
    "patch_pattern",
    "patch_stream",
    "project",
    "projection",
    "run",
    "save_pretrained",
    "superposition",
    "term_losses",
    "token_losses",
    "token_ov",
    "token_qk",
    "train",
]
__getattr__, __dir__ = lazy_names(__name__, _PLACES)
