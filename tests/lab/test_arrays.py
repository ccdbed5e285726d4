"""Weights keep readable names, and come back in any structure that has them."""

import errno
import os
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.lab.arrays import flat_names, load_tree, save_tree


class Layer(NamedTuple):
    W: jax.Array
    b: jax.Array


TREE = {
    "layers": [
        Layer(jnp.arange(6.0).reshape(2, 3), jnp.ones(3)),
        Layer(jnp.ones((3, 1)), jnp.zeros(1)),
    ],
    "alive": np.array([True, False]),
    "step": np.int32(7),
}


def test_names_and_round_trip(tmp_path: Path) -> None:
    save_tree(tmp_path / "arrays" / "w.safetensors", TREE)
    named = load_tree(tmp_path / "arrays" / "w.safetensors")
    assert sorted(named) == [
        "alive",
        "layers/0/W",
        "layers/0/b",
        "layers/1/W",
        "layers/1/b",
        "step",
    ]
    found = load_tree(tmp_path / "arrays" / "w.safetensors", jax.eval_shape(lambda: TREE))
    assert isinstance(found["layers"][0], Layer)
    jax.tree.map(np.testing.assert_array_equal, found, TREE)
    assert found["step"].shape == ()


def test_transposed_arrays_keep_their_values(tmp_path: Path) -> None:
    array = np.arange(6.0).reshape(2, 3).T
    save_tree(tmp_path / "a.safetensors", array)
    np.testing.assert_array_equal(load_tree(tmp_path / "a.safetensors")["value"], array)


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="key is a random key; save its seed"):
        flat_names({"key": jax.random.key(0)})
    with pytest.raises(ValueError, match="z has type complex64"):
        flat_names({"z": np.zeros(2, np.complex64)})
    with pytest.raises(ValueError, match="arrays 'w' were not saved"):
        load_tree(tmp_path / "run" / "arrays" / "w.safetensors")
    save_tree(tmp_path / "w.safetensors", {"a": np.zeros(1)})
    with pytest.raises(ValueError, match=r"like=\['b'\] must have the names saved, \['a'\]"):
        load_tree(tmp_path / "w.safetensors", {"b": 0})


def test_shapes_and_kinds_are_those_of_like(tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    save_tree(file, {"W": np.zeros((3, 2, 5), np.float16), "n": np.zeros((3,), np.int32)})
    like = {"W": jax.ShapeDtypeStruct((2, 5), jnp.float32), "n": jax.ShapeDtypeStruct((), int)}
    assert load_tree(file, like, leading=1)["W"].dtype == np.float16  # another precision
    for leading, change, message in (
        (0, {}, r"^W has shape \(3, 2, 5\), must be \(2, 5\)$"),
        (2, {}, r"^W has shape \(3, 2, 5\), must be \(\*, \*, 2, 5\)$"),
        (1, {"W": jax.ShapeDtypeStruct((5, 2), float)}, r"must be \(\*, 5, 2\)$"),
        (1, {"n": jax.ShapeDtypeStruct((), float)}, "^n has type int32, must be as float32$"),
        (1, {"n": jax.ShapeDtypeStruct((), bool)}, "^n has type int32, must be as bool$"),
    ):
        with pytest.raises(ValueError, match=message):
            load_tree(file, like | change, leading=leading)
    save_tree(file, {"W": np.zeros((3, 2, 5)), "n": np.zeros((4,), np.int32)})
    with pytest.raises(ValueError, match=r"leading=1 axes must agree, they are \[\(3,\), \(4,\)\]"):
        load_tree(file, like, leading=1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here is always full")
def test_a_full_disk_is_an_error_of_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    (tmp_path / f".{path.name}.{os.getpid()}.tmp").symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"'.*/w\.safetensors'") as caught:
        save_tree(path, TREE)
    assert caught.value.errno == errno.ENOSPC and not [*tmp_path.iterdir()]
