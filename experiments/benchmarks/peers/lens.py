"""TransformerLens: composition scores of all pairs of heads, patching of heads, and training."""

import json
import resource
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas  # type: ignore[import-untyped]
import torch  # type: ignore[import-not-found]
from transformer_lens import patching  # type: ignore[import-not-found]
from transformer_lens.config import TransformerBridgeConfig  # type: ignore[import-not-found]
from transformer_lens.model_bridge import TransformerBridge  # type: ignore[import-not-found]
from transformer_lens.model_bridge.sources.native import (  # type: ignore[import-not-found]
    NativeModel,
    build_bridge_from_module,
)
from transformers import LlamaForCausalLM  # type: ignore[import-not-found]


def settings(**sizes: Any) -> Any:
    """An attention-only model without norms."""
    return TransformerBridgeConfig(**sizes, attn_only=True, normalization_type=None, seed=0)


@cache
def drawn_model(n_layers: int, n_heads: int, d_model: int, d_head: int) -> Any:
    """Normal weights over ``√d_model``, drawn as ``experiments/benchmarks/composition.py`` does."""
    sizes = {"n_layers": n_layers, "n_heads": n_heads, "d_model": d_model, "d_head": d_head}
    model = TransformerBridge.boot_native(settings(**sizes, n_ctx=2, d_vocab=2), device="cpu")
    rng = np.random.default_rng(0)
    with torch.no_grad():
        for name in "qkvo":
            last = (d_head, d_model) if name == "o" else (d_model, d_head)
            drawn = rng.standard_normal((n_layers, n_heads, *last), np.float32)
            for layer, W in zip(model.original_model.layers, drawn, strict=True):
                columns = W if name == "o" else W.swapaxes(1, 2)  # [heads, d_head, d_model]
                rows = columns.reshape(-1, d_model) / np.float32(d_model**0.5)
                rows = rows.T if name == "o" else rows  # those of a linear layer are its outputs
                getattr(layer.attn, name).weight.copy_(torch.from_numpy(rows))
    return model


@torch.no_grad()
def composition(size: list[int], values: bool) -> dict[str, Any]:
    """Time of all three kinds; the scores themselves if asked."""
    model = drawn_model(*size)
    start = time.perf_counter()
    scores = [model.all_composition_scores(kind) for kind in "QKV"]
    seconds = time.perf_counter() - start
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = [kind.scores.tolist() for kind in scores] if values else []
    return {"seconds": seconds, "peak_mb": peak_mb, "values": found}


@cache
def loaded_model(folder: str) -> Any:
    """The model of a folder of the Hub."""
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    # `boot_transformers` wants a tokenizer, which the folder lacks.
    return build_bridge_from_module(model, "LlamaForCausalLM", hf_config=model.config).eval()


@torch.no_grad()
def patched(
    folder: str,
    text: list[int],
    donor: list[int],
    right: int,
    heads: list[list[int]],
    repeats: float,
    values: bool,
) -> dict[str, Any]:
    """The logit of one token at the end, when a head's output is that of the other text.

    As ``get_act_patch_attn_head_out_all_pos``, of the heads that are asked for. The donor's run
    counts once, the patching ``repeats`` times.
    """
    lens = loaded_model(folder)
    start = time.perf_counter()
    kept = lens.run_with_cache(torch.tensor([donor]))[1]
    begin = time.perf_counter()
    found = patching.generic_activation_patch(
        lens,
        torch.tensor([text]),
        kept,
        lambda logits: logits[0, -1, right],
        patch_setter=patching.layer_head_vector_patch_setter,
        activation_name="z",
        index_df=pandas.DataFrame(heads, columns=["layer", "head"]),
    )
    seconds = begin - start + repeats * (time.perf_counter() - begin)
    return {"seconds": seconds, "values": found.tolist()}


@cache
def training_step(
    sizes: str, batch: int, rate: float, text_tokens: int, compiled: bool
) -> Callable[[], None]:
    """A model with its optimizer and its text; each call is one step on random windows of it."""
    torch.manual_seed(0)
    model = NativeModel(settings(**json.loads(sizes)))  # without the hooks of a bridge
    d_vocab, n_ctx = model.cfg.d_vocab, model.cfg.n_ctx
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, fused=True)
    share = 1 / np.arange(1, d_vocab + 1)
    drawn = np.random.default_rng(0).choice(d_vocab, text_tokens, p=share / share.sum())
    windows = torch.from_numpy(drawn).unfold(0, n_ctx, 1)

    def loss(tokens: Any) -> Any:
        logits = model(tokens)[:, :-1]
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    compute = torch.compile(loss) if compiled else loss

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        compute(windows[torch.randint(len(windows), (batch,))]).backward()
        optimizer.step()

    return step


def trained(steps: int, values: bool, **setting: Any) -> dict[str, Any]:
    """Go on training for ``steps``."""
    step = training_step(**setting)
    start = time.perf_counter()
    for _ in range(steps):
        step()
    return {"seconds": time.perf_counter() - start}


KINDS: dict[str, Callable[..., dict[str, Any]]] = {
    "composition": composition,
    "patching": patched,
    "training": trained,
}


def answer(what: str, **request: Any) -> dict[str, Any]:
    """One of the three."""
    return KINDS[what](**request)
