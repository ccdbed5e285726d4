"""Models, runs, records, ledgers and estimates as trees in a notebook, by treescope.

A tree is unfolded with the mouse, and arrays have their picture. `notebook` turns this on; without
a notebook, ``treescope.render_to_text`` and ``render_to_html`` then know our types as well.
"""

import sys
from typing import Any

import treescope
from treescope.repr_lib import render_dictionary_wrapper, render_object_constructor
from treescope.type_registries import TREESCOPE_HANDLER_REGISTRY

from circuitax.circuits.explain.explained import Explanation
from circuitax.circuits.ledger.ledger import Ledger
from circuitax.circuits.paths.paths import path_name
from circuitax.kernel.model import Model
from circuitax.kernel.run import Run
from circuitax.records.record import Record

_FIELDS = {
    Model: ("spec", "W_E", "W_pos", "blocks", "final_norm", "W_U", "b_U"),
    Run: ("model", "tokens", "logits", "trace"),
}


def notebook(*, pictures: bool = True) -> None:
    """Show values at the end of a cell as trees; outside a notebook it has no effect.

    Args:
        pictures: Whether arrays are drawn as well.

    Source: treescope 0.1, ``basic_interactive_setup``.
    """
    for kind in (Model, Run):
        TREESCOPE_HANDLER_REGISTRY[kind] = _with_fields
    TREESCOPE_HANDLER_REGISTRY[Record] = _record
    TREESCOPE_HANDLER_REGISTRY[Ledger] = _ledger
    TREESCOPE_HANDLER_REGISTRY[Explanation] = _explanation
    shell = sys.modules.get("IPython")
    if shell is not None and shell.get_ipython() is not None:
        treescope.basic_interactive_setup(autovisualize_arrays=pictures)


def _with_fields(node: Any, path: str | None, render: Any) -> Any:
    """An object and its listed fields, where present."""
    fields = {name: getattr(node, name) for name in _FIELDS[type(node)]}
    return render_object_constructor(
        type(node), {k: v for k, v in fields.items() if v is not None}, path, render
    )


def _record(node: Record, path: str | None, render: Any) -> Any:
    """Every array by its name and dimensions, then the notes."""
    data = {
        f"{name}[{', '.join(map(str, array.dims))}]": array.values
        for name, array in node.data.variables.items()
    }
    return _named(Record, data | {"notes": node.notes}, render)


def _ledger(node: Ledger, path: str | None, render: Any) -> Any:
    """The paths by name, and the terms that complete the logit."""
    names = [
        path_name(heads, sources or None, start)
        for heads, sources, start in zip(node.paths, node.positions, node.starts, strict=True)
    ]
    rows = dict(zip(names, map(float, node.values), strict=True))
    sums = {
        "all other paths": float(node.remainder),
        "bias": float(node.bias),
        "none left out is larger than": float(node.omitted_bound),
    }
    return _named(Ledger, rows | sums, render)


def _explanation(node: Explanation, path: str | None, render: Any) -> Any:
    """Next tokens, effects, paths and patterns under the explanation's title."""
    patterns = zip(node.heads, node.patterns, strict=True)
    rows = {
        node.title: node.logit,
        "text": list(node.tokens),
        "next tokens": dict(zip(node.next_tokens, map(float, node.next_probs), strict=True)),
        "direct effects": dict(node.ranked()),
        "paths": node.paths,
        "patterns": {f"{layer}.{head}": pattern for (layer, head), pattern in patterns},
    }
    return _named(Explanation, rows, render)


def _named(kind: type, rows: dict[str, Any], render: Any) -> Any:
    # No path: the rows are no items of the object, and treescope would say how to get at them.
    return render_dictionary_wrapper(
        object_type=kind, wrapped_dict=rows, path=None, subtree_renderer=render
    )
