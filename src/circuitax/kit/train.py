"""Training of a problem of one's own, from Python: an ensemble, its metrics and its probes."""

import dataclasses
import hashlib
import inspect
import logging
import re
import signal
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.sharding import Mesh
from jaxtyping import Array, Key, PyTree

from circuitax.display.tables import NumberTable, counted
from circuitax.kernel.checks import shortened, whole
from circuitax.kernel.keys import check_key
from circuitax.kernel.shown import tabled
from circuitax.kit.measured_training import chunk_size
from circuitax.lab.loop import ChunkLoop, StopFlag, Stopped
from circuitax.records.store import write_text
from circuitax.training import ensemble
from circuitax.training.optim import OptimSpec, Schedule
from circuitax.training.problem import Member, Problem, TrainState

LONGEST_CHUNK = 100
CHECKPOINT_SECONDS = 30.0
# Says of which training the checkpoints of a folder are.
IDENTITY = "training.txt"
METHODS = {
    "init": ("key", "hyper"),
    "batch": ("key", "step"),
    "loss": ("params", "batch", "hyper"),
}
LOG = logging.getLogger("circuitax")


@tabled
@dataclass(frozen=True, repr=False)
class TrainLog:
    """Trained members, with metrics and probes of the training.

    Attributes:
        models: Parameters of all members after the last step, every array with an axis of members
            in front.
        metrics: Named arrays over ``step`` (updates done) and ``member``: ``loss``, ``grad_norm``
            and the problem's own, each the mean over the ``every`` steps before, NaN once a member
            has diverged; ``alive``; and what the probe measured at that step. Its ``attrs`` name
            the optimizer and its weight decay.
        finished: False where Ctrl-C ended the training early.
    """

    models: PyTree
    metrics: xr.Dataset
    finished: bool

    def _table(self) -> NumberTable:
        sizes, arrays = self.metrics.sizes, self.metrics.data_vars
        steps = int(self.metrics.step[-1]) if sizes["step"] else 0
        early = "" if self.finished else ", stopped early"
        members = counted(sizes["member"], "member")
        title = f"TrainLog of {members}, {counted(steps, 'step')}{early}; last metrics over members"
        rows = [
            (str(name), np.nanquantile(np.asarray(values[-1], float), [0.5, 0, 1]).tolist())
            for name, values in arrays.items()
            if steps and values.ndim == 2
        ]
        shown = {name for name, _ in rows}
        others = [
            f"{name} {dict(values.sizes)}" for name, values in arrays.items() if name not in shown
        ]
        settings = ", ".join(f"{name} {value}" for name, value in self.metrics.attrs.items())
        return NumberTable(title, ("median", "lowest", "highest"), rows, [*others[:5], settings])


def train(
    problem: Problem,
    members: int | Member,
    steps: int,
    *,
    key: Key[Array, ""] | None = None,
    optim: OptimSpec | None = None,
    every: int | None = None,
    probe: Callable[[PyTree], Any] | None = None,
    folder: str | Path | None = None,
    mesh: Mesh | str | None = "auto",
) -> TrainLog:
    """Train an ensemble on a problem of your own, with progress; Ctrl-C returns what there is.

    Args:
        problem: Frozen dataclass with ``init``, ``batch`` and ``loss``, as `Problem` says; the
            parameters may be any pytree, such as a `Model`.
        members: How many, which differ by their keys, with ``hyper`` 0, 1, 2, ...; or, where rates
            or numbers of the problem differ, what `ensemble.new_members` makes.
        steps: Updates in all, at least 1. With ``folder``, a training that is finished goes on when
            it is called with more of them, unless its rate has a schedule.
        key: Of initialisation and data; needed where ``members`` is a number.
        optim: Optimizer, such as ``cx.training.optim.OptimSpec("adam", learning_rate=1e-3,
            weight_decay=0.0)``, whose weights decay by 0.01 unless told otherwise;
            ``OptimSpec()`` when None, which is AdamW with that decay and rate 1e-3. Its ``steps``
            are those of this call, and its rate is that of all members where ``members`` is a
            number.
        every: Steps between two rows of the metrics, a divisor of ``steps``; at most 100 when None.
        probe: Measurement of one member's parameters every ``every`` steps: an array, called
            ``probe``, or a dict of arrays.
        folder: Where checkpoints go; the same call resumes from the last one there, and code of
            the problem that was edited since is refused. None keeps nothing.
        mesh: Devices that members are spread over, as in `ensemble.Plan`: all there are unless told
            otherwise, one where None. The cores of a CPU are devices where a script or notebook
            begins with ``jax.config.update("jax_num_cpu_devices", 2)``.

    Raises:
        ValueError: If an argument is out of range, ``problem`` is no problem or cannot be hashed,
            two arrays have one name, or ``folder`` holds another training.
        Diverged: If all members diverged.
    """
    steps = whole("steps", steps, 1)
    every = chunk_size(steps, LONGEST_CHUNK) if every is None else whole("every", every)
    if every < 1 or steps % every:
        raise ValueError(f"every={every} must be at least 1 and divide steps={steps}")
    optim = OptimSpec() if optim is None else optim
    if not isinstance(optim, OptimSpec):
        raise ValueError(
            f"optim={optim!r} must be an OptimSpec, such as "
            "circuitax.training.optim.OptimSpec('adam', learning_rate=1e-3)"
        )
    _check_problem(problem)
    if probe is not None and not callable(probe):
        raise ValueError(f"probe={shortened(probe)} must be a function of one member's parameters")
    if folder is not None and not isinstance(folder, str | Path):
        raise ValueError(f"folder={shortened(folder)} must be a path, or None to keep nothing")
    if optim.schedule is not Schedule.constant:
        optim = dataclasses.replace(optim, steps=steps)
    if not isinstance(members, Member):
        members = whole("members", members, 1)
        if key is None:
            raise ValueError("key=None must be a key where members is a number")
        check_key(key, one=True)
        members = ensemble.new_members(key, optim.learning_rate, jnp.arange(members))
    elif key is not None:
        raise ValueError("key must be None where members have keys of their own")
    plan = ensemble.Plan(problem, optim, chunk=every, mesh=mesh)
    advance = ensemble.advance(plan, members)

    def probed(state: TrainState) -> tuple[TrainState, dict[str, Array]]:
        state, metrics = advance(state)
        found = {} if probe is None else _measure(probe, state.params)
        found = found if isinstance(found, dict) else {"probe": found}
        if taken := sorted(set(found) & set(metrics)):
            raise ValueError(f"probe returns {taken[0]!r}, which is the name of a metric")
        return state, metrics | found

    with ExitStack() as stack:
        kept = Path(stack.enter_context(TemporaryDirectory()) if folder is None else folder)
        if folder is not None:
            _claim(kept, _identity(plan, members, probe))
        stop = stack.enter_context(StopFlag([signal.SIGINT]))
        loop = ChunkLoop("train", kept, stop, CHECKPOINT_SECONDS, LOG.warning)
        try:
            state, metrics = loop.run(ensemble.init(plan, members), probed, steps // every, "loss")
        except Stopped:
            state, metrics = loop.state, loop.metrics()
    n_rows = len(metrics["loss"]) if metrics else 0
    after = every * np.arange(1, n_rows + 1)
    # On one device again, where the caller's other arrays are.
    models = jax.tree.map(jnp.asarray, jax.device_get(state.params))
    return TrainLog(
        models,
        _dataset(metrics, after, members.init_key.shape[0], optim),
        finished=n_rows == steps // every,
    )


@partial(jax.jit, static_argnums=0)
def _measure(probe: Callable[[PyTree], Any], models: PyTree) -> Any:
    return jax.vmap(probe)(models)


def _check_problem(problem: Any) -> None:
    name = type(problem).__name__
    for method, names in METHODS.items():
        if not callable(getattr(problem, method, None)):
            raise ValueError(f"problem is a {name} without a method {method}")
        try:
            inspect.signature(getattr(problem, method)).bind(*names)
        except TypeError:
            call = f"{method}({', '.join(names)})"
            raise ValueError(f"problem is a {name} that cannot be called as {call}") from None
    try:
        hash(problem)
    except TypeError as error:
        raise ValueError(
            f"problem is a {name} that cannot be hashed ({error}): make it a frozen dataclass, "
            "with eq=False where a field is an array"
        ) from error


def _dataset(
    metrics: dict[str, np.ndarray], step: np.ndarray, n_members: int, optim: OptimSpec
) -> xr.Dataset:
    def dims(name: str, ndim: int) -> list[str]:
        return ["step", "member", *(f"{name}_{axis}" for axis in range(ndim - 2))]

    arrays = {name: (dims(name, values.ndim), values) for name, values in metrics.items()}
    facts = {"optimizer": optim.name.value, "weight_decay": optim.weight_decay}
    return xr.Dataset(arrays, {"step": step, "member": np.arange(n_members)}, facts)


def _identity(plan: ensemble.Plan, members: Member, probe: Any) -> str:
    """A checksum of settings, members, and the code of the problem and the probe."""
    problem: Any = plan.problem
    fields = dataclasses.fields(problem) if dataclasses.is_dataclass(problem) else ()
    values = {field.name: getattr(problem, field.name) for field in fields}
    keys = [jax.random.key_data(k) for k in (members.init_key, members.data_key)]
    name = None if probe is None else getattr(probe, "__qualname__", type(probe).__qualname__)
    settings = (type(problem).__qualname__, plan.optim, plan.chunk, name)
    leaves, structure = jax.tree.flatten(
        (settings, values, keys, members.learning_rate, members.hyper)
    )
    digest = hashlib.sha256(str(structure).encode())
    for leaf in leaves:
        is_array = isinstance(leaf, (jax.Array, np.ndarray))
        # Functions print where they are in memory.
        text = re.sub(r" at 0x[0-9a-f]+", "", repr(leaf)).encode()
        digest.update(np.asarray(leaf).tobytes() if is_array else text)
    methods = [vars(kind).get(name) for kind in type(problem).__mro__ for name in METHODS]
    seen: set[CodeType] = set()
    for function in (*methods, *values.values(), probe):
        _add_code(digest, function, seen)
    return digest.hexdigest() + "\n"


def _add_code(digest: Any, function: Any, seen: set[CodeType]) -> None:
    """Add a function's instructions and constants, and those of its module that it names."""
    function = inspect.unwrap(getattr(function, "func", function))
    codes = [getattr(function, "__code__", None)]
    while codes:
        code = codes.pop()
        if code is None or code in seen:
            continue
        seen.add(code)
        codes += [const for const in code.co_consts if inspect.iscode(const)]
        # A set has no order that the next process shares.
        plain = [
            sorted(const, key=repr) if isinstance(const, frozenset) else const
            for const in code.co_consts
            if not inspect.iscode(const)
        ]
        digest.update(code.co_code + repr((code.co_names, plain)).encode())
        for name in code.co_names:
            known = function.__globals__.get(name)
            if isinstance(known, int | float | str):
                digest.update(repr(known).encode())
            elif getattr(known, "__module__", None) == function.__module__:
                _add_code(digest, known, seen)


def _claim(folder: Path, identity: str) -> None:
    path = folder / IDENTITY
    if path.exists() and path.read_text(encoding="utf-8") != identity:
        raise ValueError(
            f"folder={str(folder)!r} holds another training (of another key, other code, "
            "fields, members, optimizer or every), must be empty or a new one"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_text(path, identity)
