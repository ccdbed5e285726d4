"""All that the library computes has programs for GPUs and TPUs, which `jax.export` lowers here.

An export raises where an operation has no kernel on a platform, or calls the host. What becomes of
a program in that platform's compiler is not seen.
"""

import ast
import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import export

import circuitax as cx
from circuitax.data.synthetic import RepeatedSource
from circuitax.kernel import linalg
from circuitax.kernel.chain import top_k
from circuitax.models.autoencoder import Autoencoder, DecomposedMaps, Sparsity
from circuitax.models.toy import ToySpec
from circuitax.models.transformer import Transformer
from circuitax.projection.coherence import coherence
from circuitax.superposition import descent, expected_loss
from circuitax.training import ensemble
from circuitax.training.dictionary import DictionaryHyper, DictionaryLearning
from circuitax.training.ensemble import Plan, device_mesh, new_members
from circuitax.training.language import NextToken, StreamedNextToken
from circuitax.training.optim import OptimSpec
from circuitax.training.problem import SideBySide
from circuitax.training.toy import Features, ToyHyper, ToyProblem
from experiments.directions.toy_scaling.problem import ScalingHyper, ScalingToy
from experiments.one_layer.bigram.experiment import FullBatchBigrams
from experiments.superposition.kgons.experiment import OneHotHyper, OneHotToy
from experiments.superposition.toy_abs.experiment import AbsoluteToy
from experiments.superposition.toy_adversarial.experiment import AdversarialToy, AttackedHyper
from experiments.superposition.toy_constructive.experiment import DependentHyper, DependentToy
from experiments.superposition.toy_decomposition.problem import Decomposition, TargetHyper
from experiments.superposition.toy_memorization.experiment import MemorizingToy, TrainingSet
from tests.test_transforms import CALLS, GAUSSIAN, SPEC, TEXT

pytestmark = pytest.mark.usefixtures("unchecked_types")

ROOT = Path(__file__).parents[1]
SHAPE = jax.ShapeDtypeStruct
MODEL = jax.eval_shape(lambda: cx.init(jax.random.key(0), SPEC))


def lowered(function: Callable[..., Any], *given: Any, platforms: Any = ("cuda", "tpu")) -> str:
    """The program for a GPU and a TPU, of shapes alone."""
    # jaxlib promises the other calls for years, and cuSOLVER's general eigenvalues not yet.
    eig = export.DisabledSafetyCheck.custom_call("cuhybrid_eig_real")
    program = export.export(jax.jit(function), platforms=platforms, disabled_checks=[eig])
    return program(*given).mlir_module()


@pytest.mark.parametrize("name", CALLS)
def test_a_function_and_its_gradient(name: str) -> None:
    def total(model: cx.Model) -> tuple[jax.Array, Any]:
        runs = (cx.run(model, text, outputs=True) for text in (TEXT, TEXT[::-1]))
        found = CALLS[name](model, *runs)
        numbers = [x for x in jax.tree.leaves(found) if jnp.issubdtype(x.dtype, jnp.inexact)]
        return sum((jnp.sum(x) for x in numbers), start=jnp.zeros(())), found

    assert "lapack" not in lowered(jax.value_and_grad(total, has_aux=True), MODEL)


# What functions that work on the host compute on a device, and kernels over whole vocabularies.
POINTS = SHAPE((600, 8), float)
TOYS = SHAPE((2, expected_loss.Padding(3, 5).rows * 5 + 5), float)
FIVE = SHAPE((2, 5), float)
KEY = jax.eval_shape(lambda: jax.random.key(0))
PROGRAMS: dict[str, tuple[Any, ...]] = {
    "distortion": (cx.distortion, POINTS, SHAPE((600, 4), float)),
    "project": (lambda key, points: cx.project(key, points, GAUSSIAN), KEY, POINTS),
    "coherence": (coherence, POINTS),
    "init": (lambda key: cx.init(key, SPEC), KEY),
    "repeated_tokens": (lambda key: cx.repeated_tokens(key, 2, 8, 11), KEY),
    "top_k of a table of tokens": (lambda m: top_k(cx.token_ov(m)[1, 0], 4), MODEL),
    "exact losses": (
        partial(inspect.unwrap(expected_loss._losses), rows=3, n_terms=256),
        *(TOYS, FIVE, FIVE),
    ),
    "descent": (
        lambda x, p, weight, unit: inspect.unwrap(descent._advance)(
            descent._begin(x), p, weight, unit, 20, (1e-6, 1e-6), 256, rows=3, block=64
        ),
        *(TOYS, FIVE, FIVE, SHAPE((2,), float)),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_a_function_on_the_host(name: str) -> None:
    assert "lapack" not in lowered(*PROGRAMS[name])


def test_exact_losses_in_float64(x64: None) -> None:
    wide = [SHAPE(x.shape, jnp.float64) for x in (TOYS, FIVE, FIVE)]
    assert "f64" in lowered(PROGRAMS["exact losses"][0], *wide)


DECOMPOSITIONS = ("symmetric_eigen", "symmetric_eigenvalues", "orthonormal", "triangle", "singular")


@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_a_decomposition_takes_whole_batches_there_and_single_matrices_on_a_cpu(name: str) -> None:
    decompose, M = getattr(linalg, name), SHAPE((3, 4, 4), float)
    assert "while" in lowered(decompose, M, platforms=("cpu",))
    assert "3x4x4" in lowered(decompose, M, platforms=("cuda",))
    slope = jax.grad(lambda M: sum(jnp.sum(x**2) for x in jax.tree.leaves(decompose(M))))
    assert "lapack" not in lowered(jax.vmap(slope), SHAPE((2, 3, 4, 4), float))


def test_general_eigenvalues_have_no_kernel_on_a_tpu_and_the_error_names_both() -> None:
    M = SHAPE((3, 4, 4), float)
    assert "cuhybrid_eig_real" in lowered(linalg.eigenvalues, M, platforms=("cuda",))
    with pytest.raises(NotImplementedError, match=r"^.*'eig' not found for platform tpu$"):
        lowered(linalg.eigenvalues, M, platforms=("tpu",))


TOY = ToySpec(n_features=6, n_hidden=2)
ONES = jnp.ones((8, 6))
HYPER = ToyHyper(0.1 * ONES, ONES)
OF_EIGHT = jnp.ones(8)
MODULE = Transformer(SPEC)
TEXTS = RepeatedSource(batch=4, length=6, d_vocab=11, min_period=2, max_period=3)


def dictionary(kind: Sparsity) -> tuple[Any, Any]:
    directions = jnp.ones((8, 6, 3))
    hyper = DictionaryHyper(directions, OF_EIGHT, OF_EIGHT, OF_EIGHT)
    return DictionaryLearning(Autoencoder(kind, 8, 3), 6, batch_size=4), hyper


PROBLEMS: dict[str, tuple[Any, Any]] = {
    "ToyProblem": (ToyProblem(TOY, 16), HYPER),
    "ToyProblem in sets": (
        ToyProblem(TOY, 16, features=Features.correlated, set_size=2),
        ToyHyper(0.1 * ONES[:, :3], ONES),
    ),
    "SideBySide": (SideBySide((ToyProblem(TOY, 16), AbsoluteToy(6, 2, 16))), (HYPER, HYPER)),
    "NextToken": (NextToken(MODULE, TEXTS), OF_EIGHT),
    "NextToken with a penalty": (
        NextToken(MODULE, TEXTS, penalty=lambda model, step: jnp.sum(model.W_E**2)),
        OF_EIGHT,
    ),
    "StreamedNextToken": (StreamedNextToken(MODULE, 6, 1), jnp.ones((8, 1, 4, 6), int)),
    **{f"DictionaryLearning {kind.name}": dictionary(kind) for kind in Sparsity},
    "AbsoluteToy": (AbsoluteToy(6, 2, 16), HYPER),
    "AdversarialToy": (AdversarialToy(TOY, 16), AttackedHyper(ONES, ONES, OF_EIGHT)),
    "Decomposition": (
        Decomposition(DecomposedMaps((6, 2, 6), 4, 2), batch_size=16),
        TargetHyper((jnp.ones((8, 6, 2)), jnp.ones((8, 2, 6))), ONES, ONES, OF_EIGHT),
    ),
    "MemorizingToy": (
        MemorizingToy(TOY),
        TrainingSet(jnp.ones((8, 6, 5)), OF_EIGHT, OF_EIGHT),
    ),
    "OneHotToy": (OneHotToy(6, 2, 16), OneHotHyper(OF_EIGHT)),
    "DependentToy": (
        DependentToy(TOY, 16),
        DependentHyper(jnp.ones((8, 6, 6)), 0.1 * ONES, OF_EIGHT),
    ),
    "FullBatchBigrams": (
        FullBatchBigrams(
            Transformer(cx.TransformerSpec(d_vocab=5, n_ctx=5, n_layers=0, d_model=4))
        ),
        jnp.ones((8, 5, 5)),
    ),
    "ScalingToy": (ScalingToy(6, 2, 16), ScalingHyper(0.1 * ONES, OF_EIGHT)),
}


def test_every_problem_has_its_step() -> None:
    found = set()
    for folder in ("src", "experiments"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text if "def batch(self" in text else "")):
                if isinstance(node, ast.ClassDef) and node.name != "Problem":
                    names = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
                    found |= {node.name} if {"init", "batch", "loss"} <= names else set()
    assert found == {name.split()[0] for name in PROBLEMS}


def training(name: str, n_devices: int) -> Callable[[], Any]:
    problem, hyper = PROBLEMS[name]
    mesh = None if n_devices == 1 else device_mesh(n_devices)
    plan = Plan(problem, OptimSpec(), chunk=1, mesh=mesh)
    members = new_members(jax.random.key(0), 1e-3, jax.tree.map(jnp.asarray, hyper))
    advance = ensemble.advance(plan, members)
    return lambda: advance(ensemble.init(plan, members))


@pytest.mark.parametrize("name", PROBLEMS)
def test_first_weights_and_a_step_of_an_ensemble(name: str) -> None:
    assert "lapack" not in lowered(training(name, 1))


@pytest.mark.parametrize("name", ["ToyProblem", "NextToken"])
def test_a_step_over_eight_devices(name: str) -> None:
    step = training(name, 8)
    exported = export.export(jax.jit(step), platforms=("cuda", "tpu"))()
    assert exported.nr_devices == 8


def test_members_are_mapped_at_once_there_and_looped_over_on_a_cpu() -> None:
    # 8 members, 16 samples of 6 features in the forward pass.
    step = training("AbsoluteToy", 1)
    assert "8x6x16" not in lowered(step, platforms=("cpu",))
    assert "8x6x16" in lowered(step, platforms=("tpu",))
