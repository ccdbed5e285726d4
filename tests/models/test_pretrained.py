"""Pretrained models against what TransformerLens computes, and saved and read again."""

import json
import shutil
import sys
import types
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.flax import save_file as save_flax
from safetensors.numpy import load_file

from circuitax.kernel.forward import forward
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.models import pretrained, sources
from circuitax.models.lens_format import model_from_lens, spec_from_config
from circuitax.models.pretrained import load_pretrained, save_pretrained
from circuitax.models.sources import tensors_of

FIXTURES = Path(__file__).parent.parent / "fixtures" / "transformer_lens"
NAMES = sorted(folder.name for folder in FIXTURES.iterdir())


def test_there_are_six_models() -> None:
    assert len(NAMES) == 6


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logits_and_patterns_of_TransformerLens(name: str, dtype: str) -> None:
    expected = np.load(FIXTURES / name / "expected.npz")
    with jax.enable_x64(dtype == "float64"):
        model = load_pretrained(FIXTURES / name, dtype=dtype)
        assert model.W_E.dtype == dtype
        run = jax.jit(jax.vmap(lambda tokens: forward(model, tokens)))
        logits, trace = run(jnp.asarray(expected["toks"]))
    np.testing.assert_allclose(logits, expected["logits"], rtol=2e-5, atol=1e-4)
    np.testing.assert_allclose(trace.patterns[:, 0], expected["pat0"], atol=2e-6)


def test_shortformer_vectors_join_after_the_norm(x64: None) -> None:
    """Put into the stream instead, they change the logits of the same weights by far more."""
    model = load_pretrained(FIXTURES / "shortformer_LN")
    expected = np.load(FIXTURES / "shortformer_LN" / "expected.npz")
    learned = model.with_options(positions=Positions.learned)
    wrong, _ = jax.jit(forward)(learned, jnp.asarray(expected["toks"][0]))
    assert np.abs(np.asarray(wrong) - expected["logits"][0]).max() > 0.1


@pytest.mark.parametrize("name", NAMES)
def test_saved_models_are_the_same_file_again(tmp_path: Path, name: str) -> None:
    model = load_pretrained(FIXTURES / name)
    save_pretrained(model, tmp_path / name)
    again = load_pretrained(str(tmp_path / name))
    assert again.spec == model.spec
    jax.tree.map(np.testing.assert_array_equal, again, model)
    before, after = (
        load_file(folder / name / "model.safetensors") for folder in (FIXTURES, tmp_path)
    )
    assert before.keys() == after.keys()
    jax.tree.map(np.testing.assert_array_equal, before, after)


CONFIG = json.loads((FIXTURES / "standard_None" / "config.json").read_text())


def state() -> dict[str, np.ndarray]:
    return load_file(FIXTURES / "standard_None" / "model.safetensors")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"d_model": None}, "config key 'd_model' is None, must be an integer"),
        ({"normalization": "DyT"}, "config key 'normalization' is 'DyT', must be one of"),
        ({"attn_only": False, "act_fn": "solu"}, "config key 'act_fn' is 'solu'"),
        ({"attn_only": False, "d_mlp": None}, "config key 'd_mlp' is None"),
        ({"use_yarn_rope": True}, "config key 'use_yarn_rope' is True, must be false"),
    ],
)
def test_configs_we_do_not_model_are_named(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        spec_from_config(CONFIG | change)


def test_buffers_are_dropped_and_absent_biases_are_zero() -> None:
    given = {name: array for name, array in state().items() if name != "unembed.b_U"}
    given["blocks.0.attn.mask"] = np.ones((12, 12), bool)
    given["blocks.1.attn.IGNORE"] = np.array(-1e5)
    model = model_from_lens(tensors_of(given), spec_from_config(CONFIG), np.float32)
    np.testing.assert_array_equal(model.b_U, np.zeros(11))
    np.testing.assert_array_equal(model.W_E, given["embed.W_E"])


FAMILY, NAME = FIXTURES.parent / "families" / "gpt2", "model.safetensors"


def test_weights_keep_the_half_precision_of_their_file(tmp_path: Path) -> None:
    whole = load_pretrained(FAMILY)
    given = jax.tree.map(lambda x: jnp.asarray(x, "bfloat16"), dict(load_file(FAMILY / NAME)))
    shutil.copy(FAMILY / "config.json", tmp_path)
    save_flax(given, tmp_path / NAME)
    half, wide = load_pretrained(tmp_path), load_pretrained(tmp_path, dtype="float32")
    for kept, cast, single in zip(*map(jax.tree.leaves, (half, wide, whole)), strict=True):
        assert (kept.dtype, cast.dtype, single.dtype) == ("bfloat16", "float32", "float32")
        np.testing.assert_array_equal(kept, single.astype("bfloat16"))
        np.testing.assert_array_equal(cast, kept.astype("float32"))


@pytest.mark.parametrize(
    "names", [["pytorch_model.bin"], ["pytorch_model-1.bin", "pytorch_model-2.bin"]]
)
def test_files_of_torch_on_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    state = load_file(FAMILY / NAME)
    shutil.copy(FAMILY / "config.json", tmp_path)
    for name in names:
        (tmp_path / name).write_bytes(bytes(1000))

    def load(path: Path, *, weights_only: bool, map_location: str) -> dict[str, Tensor]:
        assert weights_only and map_location == "cpu"
        mask = {"transformer.h.0.attn.bias": Tensor(np.ones((4, 4), bool))}
        share = sorted(state)[names.index(path.name) :: len(names)]
        return mask | {name: Tensor(state[name]) for name in share}

    monkeypatch.setattr(pretrained, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="to be read; install it, or where it is: safetensors"):
        load_pretrained(tmp_path)
    monkeypatch.setattr(pretrained, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(load=load))
    jax.tree.map(np.testing.assert_array_equal, load_pretrained(tmp_path), load_pretrained(FAMILY))


class Tensor:
    """A stand-in for those of torch."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype

    def is_floating_point(self) -> bool:
        return self.array.dtype.kind == "f"

    def float(self) -> "Tensor":
        return Tensor(self.array.astype(np.float32))

    def numpy(self) -> np.ndarray:
        return self.array


def test_pth_is_read_through_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state dict is asked for with weights_only and cast to float32."""

    def load(path: Path, *, weights_only: bool, map_location: str) -> dict[str, Tensor]:
        assert path.name == "model_final.pth" and weights_only and map_location == "cpu"
        return {name: Tensor(array.astype(kind)) for name, array in state().items()}

    kind: type[np.number] = np.float16
    monkeypatch.setattr(pretrained, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(load=load))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "model_final.pth").write_bytes(bytes(1000))
    model = load_pretrained(tmp_path)
    np.testing.assert_allclose(model.W_E, state()["embed.W_E"], rtol=1e-3)
    kind = np.int8
    with pytest.raises(ValueError, match=r"weight 'blocks.+' is of type int8, must be of floats"):
        load_pretrained(tmp_path)


def test_repositories_are_looked_up_in_the_local_cache_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class LocalEntryNotFoundError(Exception):
        pass

    class HFValidationError(Exception):
        pass

    def snapshot_download(name: str, *, local_files_only: bool) -> str:
        assert local_files_only
        if name != "owner/cached":
            raise LocalEntryNotFoundError
        return str(FIXTURES / "standard_LN")

    hub = types.SimpleNamespace(
        snapshot_download=snapshot_download,
        errors=types.SimpleNamespace(
            LocalEntryNotFoundError=LocalEntryNotFoundError, HFValidationError=HFValidationError
        ),
    )
    monkeypatch.setattr(sources, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match=r"is no folder; .* install huggingface_hub"):
        load_pretrained("owner/cached")
    monkeypatch.setattr(sources, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    assert load_pretrained("owner/cached").spec.norm == Norm.layernorm
    with pytest.raises(FileNotFoundError, match="neither a folder nor in the Hugging Face cache"):
        load_pretrained("owner/absent")
