"""A graph of nodes in the form that circuit-tracer writes and Neuronpedia reads."""

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from circuitax.display.explanation_page import short

PINNED = 8  # largest nodes that the page opens with
TYPES = {"head": "attention head", "mlp": "mlp", "unit": "mlp neuron"}
# Numbers of nodes within a layer, apart for each kind.
_FIRST = {"head": 0, "mlp": 10_000, "unit": 20_000}


def attribution_graph(
    nodes: Sequence[tuple[Any, str]],
    edges: np.ndarray,
    *,
    model: str,
    tokens: Sequence[str],
    ids: Sequence[int],
    n_layers: int,
    position: int,
    goal: str,
    token: int,
    pinned: Sequence[int] = (),
) -> str:
    """The graph as JSON: tokens, nodes with their words, the logit, and all edges that carry.

    Nodes are heads, MLPs and hidden units at positions, one head at several positions a supernode.
    ``influence`` is the share of all nodes' sizes that a node and larger ones have, by which
    Neuronpedia prunes.

    Args:
        nodes: Each with its label; `circuits.paths.path_graph.Node`.
        edges: Rows are where an edge ends: the nodes, then the logit; columns where it begins: the
            nodes, the tokens, and perhaps all biases.
        model: Name of the model.
        tokens: Of the text.
        ids: Of the tokens.
        n_layers: Of the model.
        position: Where the logit is read.
        goal: What the logit is of.
        token: Its id.
        pinned: Positions of tokens that are pinned beside the largest nodes.
    """
    sizes = np.abs(edges[: len(nodes)].sum(axis=1))
    order = np.argsort(-sizes, kind="stable")
    shares = np.empty(len(nodes))
    shares[order] = np.cumsum(sizes[order]) / (sizes.sum() or 1)
    found = [
        _node(node.layer, _FIRST[node.kind] + node.which, node.position, TYPES[node.kind], label)
        | {"influence": float(share), "activation": short(value)}
        for (node, label), share, value in zip(
            nodes, shares, edges[: len(nodes)].sum(axis=1), strict=True
        )
    ]
    found += [
        _node("E", i, at, "embedding", text) | {"feature": at}
        for at, (i, text) in enumerate(zip(ids, tokens, strict=True))
    ]
    if edges.shape[1] > len(found):
        found.append(_node("E", -1, 0, "bias", "all biases"))
    begins = [node["node_id"] for node in found]
    logit = _node(n_layers + 1, token, position, "logit", goal) | {"is_target_logit": True}
    ends = [*begins[: len(nodes)], logit["node_id"]]
    by_head = sorted(
        (i for i, (node, _) in enumerate(nodes) if node.kind == "head"),
        key=lambda i: nodes[i][0][:3],
    )
    groups = [list(same) for _, same in groupby(by_head, key=lambda i: nodes[i][0][:3])]
    graph = {
        "metadata": {
            "slug": "circuitax",
            "scan": model,
            "transcoder_list": [],
            "prompt_tokens": list(tokens),
            "prompt": "".join(tokens),
            "schema_version": 1,
            "info": {"description": goal, "generator": {"name": "circuitax"}},
        },
        "qParams": {
            "pinnedIds": [
                *(begins[i] for i in order[:PINNED]),
                *(begins[len(nodes) + at] for at in pinned),
                logit["node_id"],
            ],
            "supernodes": [
                [nodes[same[0]][0].name, *(begins[i] for i in same)]
                for same in groups
                if len(same) > 1
            ],
            "linkType": "both",
            "clickedId": logit["node_id"],
            "sg_pos": "",
        },
        "nodes": [*found, logit],
        "links": [
            {"source": begins[begin], "target": ends[end], "weight": float(edges[end, begin])}
            for end, begin in zip(*np.nonzero(edges), strict=True)
        ],
    }
    return json.dumps(graph, ensure_ascii=False, allow_nan=False)


def _node(layer: int | str, feature: int, at: int, kind: str, label: str) -> dict[str, Any]:
    return {
        "node_id": f"{layer}_{feature}_{at}",
        "feature": feature,
        "layer": str(layer),
        "ctx_idx": at,
        "feature_type": kind,
        "token_prob": 0.0,
        "is_target_logit": False,
        "run_idx": 0,
        "reverse_ctx_idx": 0,
        "jsNodeId": f"{layer}_{feature}-{at}",
        "clerp": label,
        "influence": None,
        "activation": None,
    }
