"""Compiled code kept on disk between processes."""

import hashlib
import platform
from pathlib import Path

import jax


def keep_compiled_code(folder: Path) -> Path:
    """Turn JAX's persistent compilation cache on, for this kind of processor.

    Code compiled for one processor may crash on another, and home folders are shared between
    machines, so the processor's features are part of the path.

    Args:
        folder: Parent of the caches, ignored by git.

    Returns:
        The cache's folder.
    """
    target = folder / "xla" / _processor()
    target.mkdir(parents=True, exist_ok=True)
    jax.config.update("jax_compilation_cache_dir", str(target))
    # Toy models compile in less than JAX's default threshold of a second, many times over.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    return target


def _processor() -> str:
    features = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        kept = ("model name", "flags", "Features", "CPU part")
        lines = cpuinfo.read_text().split("\n\n")[0].split("\n")
        features = "\n".join(sorted(line for line in lines if line.startswith(kept)))
    digest = hashlib.sha256(features.encode()).hexdigest()[:8]
    return f"{platform.machine()}-{digest}"
