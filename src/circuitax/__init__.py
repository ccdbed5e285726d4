"""circuitax: differentiable circuit experiments in JAX.

    import circuitax as cx

    model = cx.load_pretrained("folder")        # or cx.init(key, cx.TransformerSpec(...))
    run = cx.run(model, tokens, outputs=True)   # logits, and a trace of the whole forward pass
    print(cx.ledger(run, token=5))              # the paths that raise token 5, with a proof

A model is a pytree: ``jit``, ``vmap`` and ``grad`` take it as they take an array. Every function
takes the model or the run first, then what is asked, then options by name. A name is imported when
it is first used; ``help(cx.ledger)`` says more about one.

Models
    Model
        named weights with one static spec; ``Model.of(...)`` makes one from arrays
    TransformerSpec
        sizes and options of a model
    init(key, spec, param_dtype=float)
        fresh weights
    stack(models)
        an ensemble of models: ``len(models)``, ``models[0]``, ``jax.vmap(f)(models)``
    load_pretrained(source, *, config=None, dtype=float32)
        a model of the Hub, a GGUF file, ``"smollm2"``, or TransformerLens's format
    save_pretrained(model, folder)
        a model written in TransformerLens's format
    load_tokenizer(source)
        the tokenizer that comes with it
    fold_norms(model)
        the same model with gains and offsets of its norms in its weights
    generate(model, prompt, n_new, *, key, sampling=None)
        a text continued by a model
    repeated_tokens(key, batch, length, d_vocab)
        random texts that repeat themselves, on which induction heads are seen

Forward passes and edits
    run(model, tokens, interventions=None, *, outputs=False)
        a forward pass of a text or a batch, kept together
    Run
        model, tokens, logits, and ``run.loss``, ``run.patterns``, ``run.streams`` ...
    forward(model, tokens, interventions=None, *, cache=None, outputs=False)
        the bare pass of one text: logits and trace
    Interventions
        edits of a forward pass and frozen values; the next six make them
    ablate_head(run, head, *, positions=None, edit=None)
        one head writes nothing
    patch_head(run, head, output, *, positions=None, edit=None)
        one head writes as told
    patch_pattern(run, head, pattern, *, edit=None)
        one head attends as told
    patch_stream(run, layer, stream, *, positions=None, edit=None)
        the stream before one layer is as told
    patch_path(run, head, reader, output, *, reads='value')
        one reader alone sees a head write as told
    freeze(trace, gates='frozen')
        all patterns, norm scales and gates of a run held

Analyses of a run, made with ``outputs=True``
    token_losses(run)
        next-token losses in nats
    component_logits(run)
        what every head and MLP adds to every logit; gives ``parts``, ``bias``, ``remainder``
    expand(run, *, mlps='dressed', gates='frozen', max_paths=16384)
        all paths from tokens to logits, whose sum is the logits; gives ``paths``, ``terms``,
        ``bias``, ``remainder``
    ledger(run, token, *, minus=None, position=-1, k=20, by_position=False, mlps='sources',
           neurons=False, budget=2000000)
        the largest paths to one logit, and a bound on all others; gives ``names``, ``values``,
        ``errors``, ``remainder``, ``omitted_bound``, ``complete``
    term_losses(run)
        the loss of the paths of each order; gives ``order``, ``first_order``
    patch(run, donor, metric=None)
        the stream of one text put into another, everywhere
    ablate_each(run, metric=None, *, donor=None, preserve_patterns=False)
        what removing each head or MLP costs; gives ``heads``, ``mlps``
    explain(run, token=None, *, minus=None, position=-1, name=str, n_next=10, n_paths=None,
            n_heads=12, n_neurons=8, n_nodes=32, budget=1000000)
        one prediction: the parts of its logit, its paths, and where each head looked; gives
        ``logit``, ``names``, ``effects``, ``by_head``, ``neurons``, ``paths``, ``patterns``
    explanation_page(explained, model='')
        the same as a page of HTML

Analyses of a model
    composition(model, *, offset=0, block_entries=5242880)
        Q-, K- and V-composition of all pairs of heads, each beside its exact null; gives ``score``,
        ``z``, ``null_std``, ``maximum``
    composition_scores(model, *, offset=0, block_entries=5242880)
        the scores alone
    induction_scores(model, texts)
        prefix matching and previous-token scores on repeated texts; gives ``prefix``, ``previous``,
        ``chance``
    token_qk(model, *, offset=0, centred=True)
        the full QK circuit of every head, factored
    token_ov(model, *, centred=True)
        the full OV circuit of every head, factored

Algebra
    Kron
        A ⊗ W, a map of where to look and what to write
    Chain
        a low-rank map kept as its factors

Superposition and projection
    TiedWeights
        the toy model of superposition
    expected_loss(weights, density, importance, *, n_terms=256, convention='sum')
        its expected loss, exactly; gives ``value``, ``error``
    find_optimum(key, density, importance, *, n_hidden, n_restarts=40, starts=None,
            init_scale=1.0, n_polished=2, tolerance=0.001, thorough=True)
        the optimum over many starts; gives ``weights``, ``loss``, ``n_starts_reached``,
        ``n_reached``, ``n_near``, ``restart_loss``
    dimensionality(W)
        D_i, the share of a dimension that each feature has
    MapSpec
        a family of random maps, with its sizes
    project(key, points, spec, *, block=256)
        points through a random map
    distortion(points, images, bounds=..., limits=(-1.0, 1.0), *, measure='squared_distance',
            block=500, n_bins=512, near_capacity=1024)
        the change of all squared distances between points, in blocks, or of what ``measure``
        names; gives ``low``, ``high``, ``below``, ``above``, ``histogram``
    jl_dimension(n_points, epsilon, delta=0.05, *, tail='cubic')
        dimensions with which a random map keeps all squared distances within ε, with
        probability 1 − δ

Training
    train(problem, members, steps, *, key=None, optim=None, every=None, probe=None, folder=None,
          mesh='auto')
        a problem of your own, as an ensemble; gives ``models``, ``metrics`` (with what is probed),
        ``finished``

Results
    Record
        labelled data of a run of an experiment
    Estimate
        a number with its interval and n
    Claim
        a published statement with what is expected of it

Whole floors, with their modules as attributes, such as ``cx.circuits.weights.spectra``:
``cx.kernel``, ``cx.models``, ``cx.data``, ``cx.circuits``, ``cx.superposition``,
``cx.projection``, ``cx.training``, ``cx.records``, ``cx.figures``.
"""

from typing import TYPE_CHECKING

from circuitax.lazy import lazy_names

if TYPE_CHECKING:
    from circuitax import circuits as circuits
    from circuitax import data as data
    from circuitax import figures as figures
    from circuitax import kernel as kernel
    from circuitax import models as models
    from circuitax import projection as projection
    from circuitax import records as records
    from circuitax import superposition as superposition
    from circuitax import training as training
    from circuitax.circuits.detectors import induction_scores as induction_scores
    from circuitax.circuits.explain.explanation import explain as explain
    from circuitax.circuits.ledger.ledger import ledger as ledger
    from circuitax.circuits.patching import ablate_each as ablate_each
    from circuitax.circuits.patching import patch as patch
    from circuitax.circuits.path_patching import patch_path as patch_path
    from circuitax.circuits.paths.components import component_logits as component_logits
    from circuitax.circuits.paths.expansion import expand as expand
    from circuitax.circuits.term_losses import term_losses as term_losses
    from circuitax.circuits.weights.composition import composition as composition
    from circuitax.circuits.weights.composition import composition_scores as composition_scores
    from circuitax.circuits.weights.folding import fold_norms as fold_norms
    from circuitax.circuits.weights.heads import token_ov as token_ov
    from circuitax.circuits.weights.heads import token_qk as token_qk
    from circuitax.data.repeated import repeated_tokens as repeated_tokens
    from circuitax.display.explanation_page import explanation_page as explanation_page
    from circuitax.kernel.chain import Chain as Chain
    from circuitax.kernel.edits import ablate_head as ablate_head
    from circuitax.kernel.edits import patch_head as patch_head
    from circuitax.kernel.edits import patch_pattern as patch_pattern
    from circuitax.kernel.edits import patch_stream as patch_stream
    from circuitax.kernel.forward import forward as forward
    from circuitax.kernel.generate import generate as generate
    from circuitax.kernel.interventions import Interventions as Interventions
    from circuitax.kernel.interventions import freeze as freeze
    from circuitax.kernel.kron import Kron as Kron
    from circuitax.kernel.model import Model as Model
    from circuitax.kernel.model import stack as stack
    from circuitax.kernel.run import Run as Run
    from circuitax.kernel.run import run as run
    from circuitax.kernel.run import token_losses as token_losses
    from circuitax.kernel.spec import TransformerSpec as TransformerSpec
    from circuitax.kernel.weights import TiedWeights as TiedWeights
    from circuitax.kit.train import train as train
    from circuitax.models.pretrained import load_pretrained as load_pretrained
    from circuitax.models.pretrained import save_pretrained as save_pretrained
    from circuitax.models.text_tokenizer import load_tokenizer as load_tokenizer
    from circuitax.models.transformer import init_model as init_model
    from circuitax.projection.distortion import distortion as distortion
    from circuitax.projection.maps import MapSpec as MapSpec
    from circuitax.projection.maps import project as project
    from circuitax.projection.tails import jl_dimension as jl_dimension
    from circuitax.records.claims import Claim as Claim
    from circuitax.records.estimate import Estimate as Estimate
    from circuitax.records.record import Record as Record
    from circuitax.superposition.geometry.geometry import dimensionality as dimensionality
    from circuitax.superposition.loss.expected_loss import expected_loss as expected_loss
    from circuitax.superposition.optimum.optimum import find_optimum as find_optimum

    init = init_model

_PLACES = {
    "Chain": "circuitax.kernel.chain",
    "Claim": "circuitax.records.claims",
    "Estimate": "circuitax.records.estimate",
    "Interventions": "circuitax.kernel.interventions",
    "Kron": "circuitax.kernel.kron",
    "MapSpec": "circuitax.projection.maps",
    "Model": "circuitax.kernel.model",
    "Record": "circuitax.records.record",
    "Run": "circuitax.kernel.run",
    "TiedWeights": "circuitax.kernel.weights",
    "TransformerSpec": "circuitax.kernel.spec",
    "ablate_each": "circuitax.circuits.patching",
    "ablate_head": "circuitax.kernel.edits",
    "circuits": "circuitax.circuits.*",
    "component_logits": "circuitax.circuits.paths.components",
    "composition": "circuitax.circuits.weights.composition",
    "composition_scores": "circuitax.circuits.weights.composition",
    "data": "circuitax.data.*",
    "dimensionality": "circuitax.superposition.geometry.geometry",
    "distortion": "circuitax.projection.distortion",
    "expand": "circuitax.circuits.paths.expansion",
    "expected_loss": "circuitax.superposition.loss.expected_loss",
    "explain": "circuitax.circuits.explain.explanation",
    "explanation_page": "circuitax.display.explanation_page",
    "figures": "circuitax.figures.*",
    "find_optimum": "circuitax.superposition.optimum.optimum",
    "fold_norms": "circuitax.circuits.weights.folding",
    "forward": "circuitax.kernel.forward",
    "freeze": "circuitax.kernel.interventions",
    "generate": "circuitax.kernel.generate",
    "induction_scores": "circuitax.circuits.detectors",
    "init": "circuitax.models.transformer:init_model",
    "jl_dimension": "circuitax.projection.tails",
    "kernel": "circuitax.kernel.*",
    "ledger": "circuitax.circuits.ledger.ledger",
    "load_pretrained": "circuitax.models.pretrained",
    "load_tokenizer": "circuitax.models.text_tokenizer",
    "models": "circuitax.models.*",
    "patch": "circuitax.circuits.patching",
    "patch_head": "circuitax.kernel.edits",
    "patch_path": "circuitax.circuits.path_patching",
    "patch_pattern": "circuitax.kernel.edits",
    "patch_stream": "circuitax.kernel.edits",
    "project": "circuitax.projection.maps",
    "projection": "circuitax.projection.*",
    "records": "circuitax.records.*",
    "repeated_tokens": "circuitax.data.repeated",
    "run": "circuitax.kernel.run",
    "save_pretrained": "circuitax.models.pretrained",
    "stack": "circuitax.kernel.model",
    "superposition": "circuitax.superposition.*",
    "term_losses": "circuitax.circuits.term_losses",
    "token_losses": "circuitax.kernel.run",
    "token_ov": "circuitax.circuits.weights.heads",
    "token_qk": "circuitax.circuits.weights.heads",
    "train": "circuitax.kit.train",
    "training": "circuitax.training.*",
}
# Without __all__, whose names `help` would describe in full: the table above is what it shows.
__getattr__, __dir__ = lazy_names(__name__, "cx", _PLACES)
