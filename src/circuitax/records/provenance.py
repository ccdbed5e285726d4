"""Provenance of a run: commit, command, versions, device, seed and seconds, but no host name."""

import platform
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path, PurePath
from typing import Any

# Files that a result depends on: a changed README does not make a run dirty.
WATCHED = ("src", "experiments", "conf", "pyproject.toml", "constraints.txt")
PACKAGES = (
    "circuitax",
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax-checkpoint",
    "numpy",
    "scipy",
    "xarray",
    "h5netcdf",
    "hydra-core",
)


def describe(
    root: Path,
    *,
    command: str,
    experiment: str,
    run: str,
    scale: str,
    seed: int,
    dtype: str,
    device: str,
    seconds: float,
    source: str,
    inputs: dict[str, str],
    input_data: dict[str, str],
    outside: dict[str, str],
) -> dict[str, Any]:
    """The contents of ``provenance.json``, without paths or a host name.

    Args:
        root: The checkout whose commit is recorded.
        command: What was typed (``typed_command``).
        experiment: Name of the experiment.
        run: Identity of the run.
        scale: ``tiny``, ``quick``, ``evening`` or ``paper``.
        seed: Root of all randomness.
        dtype: Type of the numbers computed with.
        device: Kind and number of devices; the caller knows them, since this module has no JAX.
        seconds: Time the run took, over all its sessions.
        source: Hash of the source that the run depends on.
        inputs: Identity of each upstream run, by experiment.
        input_data: Checksum of the data and arrays of each upstream run, by experiment.
        outside: Checksums of the texts, tokenizers and weights that were read, by field.
    """
    commit, dirty = checkout_state(root)
    return {
        "experiment": experiment,
        "run": run,
        "scale": scale,
        "seed": seed,
        "dtype": dtype,
        "command": command,
        "commit": commit,
        "dirty": dirty,
        "source": source,
        "inputs": inputs,
        "input_data": input_data,
        "outside": outside,
        "device": device,
        "seconds": round(seconds, 2),
        "python": platform.python_version(),
        "versions": package_versions(),
    }


def checkout_state(root: Path) -> tuple[str | None, bool | None]:
    """The commit of a checkout and whether watched files differ from it; None without git."""
    commit = _git(root, "rev-parse", "HEAD")
    if commit is None:
        return None, None
    present = [name for name in WATCHED if (root / name).exists()]
    changed = _git(root, "status", "--porcelain", "--", *present)
    return commit, None if changed is None else bool(changed)


def package_versions() -> dict[str, str]:
    """Version of every package that could change a number, by name; absent ones are left out."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def typed_command(module: str, arguments: Sequence[str]) -> str:
    """``python -m module arguments`` with every absolute path cut to its last part."""
    return " ".join(["python -m", module, *(_without_path(item) for item in arguments)])


def _without_path(argument: str) -> str:
    name, equals, value = argument.partition("=")
    if not equals:
        name, value = "", argument
    if PurePath(value).is_absolute():
        value = f".../{PurePath(value).name}"
    return f"{name}{equals}{value}"


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
