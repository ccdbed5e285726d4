"""Pictures of the proofs: the plane of two features, and a box on it."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from circuitax.figures.palette import BLACK, COLOURS, GREY, ORANGE
from circuitax.figures.style import new_figure
from circuitax.superposition.pair_loss import Plane, pair_classes, pair_error
from circuitax.superposition.pair_proof import Candidates, prove_pair

P, R = 0.3, 0.1  # density, and importance of the second feature


def phase_proof() -> Figure:
    """The plane of tilt and coupling: classes, the loss, and the boxes of three levels."""
    levels: list[tuple[Plane, np.ndarray]] = []

    def watched(plane: Plane) -> np.ndarray:
        if np.ndim(plane.tilt) and plane.tilt_size:
            levels.append(plane)
        return pair_classes(plane)

    none = Candidates(np.zeros((0, 2)), np.zeros((0, 2)))
    proof = prove_pair(P, np.array([R]), none, classify=watched)
    figure, axes = new_figure(1, 4, height=2.4, sharex=True, sharey=True)
    alpha, k = np.meshgrid(np.linspace(-1.5, 1.5, 91), np.linspace(-1.6, 1.6, 92), indexing="ij")
    u = np.hypot(alpha, k)
    bias = np.linspace(-2, 1.2, 161)
    least = [
        np.min([pair_error(P, a, k, b) for b in bias], axis=0)
        for a in (np.maximum(u + alpha, 1e-6), np.maximum(u - alpha, 1e-6))
    ]
    loss = least[0] + R * least[1]
    first, second = u + alpha, u - alpha
    kind = np.where(second < 0.25, 0, np.where(first < 0.5, 1, np.where(k < 0, 2, 3)))
    for ax in axes[0]:
        ax.contour(
            alpha,
            k,
            loss / proof.upper[0],
            levels=[1.05, 1.5, 2, 4, 8],
            colors=GREY,
            linewidths=0.5,
        )
    axes[0, 0].contourf(
        alpha, k, kind, levels=[-0.5, 0.5, 1.5, 2.5, 3.5], colors=COLOURS[:4], alpha=0.25
    )
    for (x, y), name in {
        (0.95, 0.3): "ignored",
        (-0.8, 0.0): "dedicated",
        (0, -1.1): "opposite\nsigns",
        (0, 1.1): "equal\nsigns",
    }.items():
        axes[0, 0].text(x, y, name, ha="center", va="center")
    axes[0, 0].set(title="classes, and loss", ylabel="coupling k")
    for ax, halvings in zip(axes[0, 1:], (3, 5, 8), strict=True):
        plane = levels[1 + halvings]  # the first call asks for the number of classes
        for corner in zip(plane.tilt, plane.coupling, strict=True):
            ax.add_patch(
                Rectangle(
                    corner,
                    plane.tilt_size,
                    plane.coupling_size,
                    fc=ORANGE,
                    alpha=0.3,
                    ec=ORANGE,
                    lw=0.3,
                )
            )
        ax.set_title(f"boxes left after {halvings}\nhalvings: {len(plane.tilt)}")
    for ax in axes[0]:
        ax.plot(0.5, 0, "+", color=BLACK, ms=5)
        ax.set(xlabel="tilt α", xlim=(-1.5, 1.5), ylim=(-1.6, 1.6))
    return figure
