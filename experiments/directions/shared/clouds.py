"""Point clouds to project: Gaussian, on the sphere, sparse features, clusters."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from circuitax.kernel.checks import check_range
from circuitax.kernel.keys import derive


def gaussian_cloud(key: Key[Array, ""], n_points: int, dim: int) -> Float[Array, "n_points dim"]:
    """Independent N(0, I) points, whose norms are all nearly equal, and whose distances are too.

    Raises:
        ValueError: If ``n_points`` or ``dim`` is below 1.
    """
    _check(n_points=n_points, dim=dim)
    return jax.random.normal(key, (n_points, dim))


def sparse_cloud(
    key: Key[Array, ""], n_points: int, dim: int, n_active: int = 1
) -> Float[Array, "n_points dim"]:
    """Sparse feature vectors: ``n_active`` distinct random coordinates are 1, the others 0.

    With ``n_active = 1`` and at most ``dim`` points the first ``n_points`` of a random order of the
    basis vectors are taken, so no point repeats; otherwise repeats are possible and are reported by
    the distortion statistics as zero distances.

    Raises:
        ValueError: If ``n_active`` is outside [1, dim].
    """
    _check(n_points=n_points, dim=dim)
    if not 1 <= n_active <= dim:
        raise ValueError(f"n_active={n_active} must be in [1, dim={dim}]")
    if n_active == 1 and n_points <= dim:
        hot = jax.random.permutation(key, dim)[:n_points, None]
    else:
        keys = jax.random.split(key, n_points)
        hot = jax.vmap(lambda k: jax.random.permutation(k, dim)[:n_active])(keys)
    return jnp.zeros((n_points, dim)).at[jnp.arange(n_points)[:, None], hot].set(1.0)


def clustered_cloud(
    key: Key[Array, ""], n_points: int, dim: int, n_clusters: int, spread: float
) -> Float[Array, "n_points dim"]:
    """Clusters whose centres are N(0, I) and whose points are N(0, spread² I) around their centre.

    The sizes of two clusters differ by at most one point.

    Args:
        key: Consumed.
        n_points: At least 1.
        dim: At least 1.
        n_clusters: In [1, n_points].
        spread: Standard deviation inside a cluster, positive; far below 1, distances within a
            cluster are lost to rounding in single precision and are resolved directly.

    Raises:
        ValueError: If an argument is outside its range.
    """
    _check(n_points=n_points, dim=dim)
    if not 1 <= n_clusters <= n_points:
        raise ValueError(f"n_clusters={n_clusters} must be in [1, n_points={n_points}]")
    check_range("spread", spread, "(0, inf)")  # 0 would give duplicate points
    centres = jax.random.normal(derive(key, "centres"), (n_clusters, dim))
    offsets = jax.random.normal(derive(key, "offsets"), (n_points, dim))
    return centres[jnp.arange(n_points) % n_clusters] + spread * offsets


def _check(**sizes: int) -> None:
    for name, size in sizes.items():
        check_range(name, size, "[1, inf)")
