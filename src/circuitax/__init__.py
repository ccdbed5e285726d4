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
    load_pretrained(source, *, config=None, dtype=None)
        a model of the Hub, a GGUF file, ``"smollm2"``, or TransformerLens's format
    save_pretrained(model, folder)
        a model written in TransformerLens's format
    load_tokenizer(source)
        the tokenizer that comes with the model
    fold_norms(model)
        the same model with gains and offsets of its norms in its weights
    generate(model, prompt, n_new, *, key, sampling=None)
        a text continued by a model
    repeated_tokens(key, batch, length, d_vocab)
        random texts that repeat themselves, on which induction heads are seen

Forward passes and edits
    run(model, tokens, interventions=None, *, outputs=False, mask=None)
        a forward pass of a text or a batch, padded where lengths differ, kept together
    Run
        model, tokens, logits, ``run.loss``, ``run.patterns``, ``run.streams``, ``run.lens()``;
        made with ``outputs=True`` also ``run.head_outputs``, ``mlp_outputs``, ``q``, ``k``, ``v``,
        ``scores``, ``z``, ``mid``, ``pre``, ``post``
    forward(model, tokens, interventions=None, *, cache=None, outputs=False, mask=None)
        the bare pass of one text: logits and trace
    Interventions
        edits of a forward pass and frozen values; the next seven make them
    ablate_head(run, head, *, positions=None, edit=None)
        the edit under which one head writes nothing
    patch_head(run, head, output, *, positions=None, edit=None)
        the edit that sets what one head writes
    patch_pattern(run, head, pattern, *, edit=None)
        the edit that sets where one head attends
    patch_activation(run, name, at, value, *, positions=None, edit=None)
        the edit that sets queries, keys, values, scores, neurons or the like
    patch_stream(run, layer, stream, *, positions=None, edit=None)
        the edit that sets the stream before one layer
    patch_path(run, head, reader, output, *, reads='value', between='held')
        the edit that sets what a head writes, for one reader alone
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
    patch_effects(run, donor, metric=None, *, site='streams', data=None, position=None, layers=None,
            positions=None, by_position=None)
        the stream of one text put into another, everywhere; or all heads: ``site="head_outputs"``
    path_effects(run, donor, metric=None, *, reads='value', between='held', data=None,
            position=None, writers=None, readers=None)
        the change when one head alone sees what another wrote in the other text, for all pairs
    ablation_effects(run, metric=None, *, data=None, position=None, layers=None,
            preserve_patterns=False)
        what removing each head or MLP costs; gives ``heads``, ``mlps``
    explain(run, token=None, *, minus=None, position=-1, name=str, n_next=10, n_paths=None,
            n_heads=12, n_neurons=8, n_nodes=32, budget=1000000)
        one prediction: the parts of its logit, its paths, and where each head looked; gives
        ``logit``, ``names``, ``effects``, ``by_head``, ``neurons``, ``paths``, ``patterns``
    explanation_page(explained, model='')
        the explanation as a page of HTML
    contrast(run, other, *, token, minus=None, position=-1)
        why this and not that: the difference of two texts, split without remainder; gives
        ``delta``, ``flow``, ``heads``, ``routes``, ``mlps``, ``neurons``, ``gates``, ``norms``

Analyses of a model
    composition(model, *, offset=0, block_entries=5242880)
        Q-, K- and V-composition of all pairs of heads, each beside its exact null; gives ``score``,
        ``z``, ``null_std``, ``maximum``
    composition_scores(model, *, offset=0, block_entries=5242880)
        the scores of ``composition`` alone
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
        the exact expected loss of the toy model; gives ``value``, ``error``
    find_optimum(key, density, importance, *, n_hidden, n_restarts=40, starts=None,
            init_scale=1.0, n_polished=2, tolerance=0.001, thorough=True)
        the toy model of least expected loss, over many starts; gives ``weights``, ``loss``,
        ``n_starts_reached``, ``n_reached``, ``n_near``, ``restart_loss``
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

Whole floors, with their modules as attributes, such as ``cx.circuits.weights.spectra``:
``cx.kernel``, ``cx.models``, ``cx.data``, ``cx.circuits``, ``cx.superposition``,
``cx.projection``, ``cx.training``, ``cx.records``, ``cx.figures``.
"""

from typing import Any

import lazy_loader

from circuitax.names import suggestion

# Without __all__, whose names `help` would describe in full: the table above is what it shows.
_lent, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name not in __dir__():
        hint = suggestion(name, __dir__(), "cx.")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    return _lent(name)
