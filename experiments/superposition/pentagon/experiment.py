"""The pentagon network of Example 26: five features in two neurons, and what they cannot carry.

Example 26 and Figure 1 stand in S0, "Some Structures in Transformer Architectures", the project's
source note. The network recovers every feature of magnitude one exactly; the run looks at all other
magnitudes and at all pairs of features.
"""

from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.config.ranges import PositiveNumber
from circuitax.kernel.toy import dense_forward, pentagon_weights
from circuitax.lab.lab import Lab
from circuitax.superposition.tasks.response import feature_response, onsets, pair_table


@dataclass(frozen=True)
class Spec:
    """Evaluation points; the network itself is fixed by its definition.

    Attributes:
        max_magnitude: Greatest magnitude of a feature.
        n_magnitudes: Points of the response curves.
    """

    max_magnitude: PositiveNumber = 3.0
    n_magnitudes: Annotated[int, "[2, inf)"] = 601


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Response of every feature over its magnitude, and of every pair at magnitude one."""
    weights = pentagon_weights()
    magnitudes = jnp.linspace(0, spec.max_magnitude, spec.n_magnitudes)
    response = jax.jit(feature_response)(weights, magnitudes)
    edges = onsets(weights, limit=spec.max_magnitude)
    pairs = pair_table(weights)
    single, (_, single_pre) = dense_forward(weights, jnp.eye(5))
    half = feature_response(weights, jnp.array([0.5]))[:, 0]

    feature = np.arange(1, 6)
    return xr.Dataset(
        {
            "response": (("feature", "magnitude", "output"), np.asarray(response)),
            "single": (("feature", "output"), np.asarray(single)),
            "single_pre_activation": (("feature", "output"), np.asarray(single_pre)),
            "half": (("feature", "output"), np.asarray(half)),
            "embedding": (("feature", "neuron"), np.asarray(weights.layers[0].W)),
            "pair_output": (("pair", "output"), np.asarray(pairs.output)),
            "pair_pre_activation": (("pair", "output"), np.asarray(pairs.pre_activation)),
            "pair_clipped": (("pair", "neuron"), np.asarray(pairs.clipped)),
            "alive": ("feature", np.asarray(edges.alive)),
            "clips": ("feature", np.asarray(edges.clips)),
            "invents": ("feature", np.asarray(edges.invents)),
        },
        coords={
            "feature": feature,
            "output": feature,
            "neuron": [1, 2],
            "magnitude": np.asarray(magnitudes),
            "first": ("pair", np.asarray(pairs.first) + 1),
            "second": ("pair", np.asarray(pairs.second) + 1),
        },
    )
