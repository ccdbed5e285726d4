"""The benchmark harness: paired ratios, discovery, the table, and a peer's failures."""

import json
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.paths.expansion import path_streams
from circuitax.kernel.forward import forward
from circuitax.models.transformer import init
from circuitax.projection.stream import Stream, Summary
from experiments.benchmarks import case as case_module
from experiments.benchmarks import (
    first_optimum,
    jl_large,
    language_training,
    limits,
    memory,
    path_ledger,
    profiled,
    start_up,
    sweep,
    token_circuit,
)
from experiments.benchmarks import peer as peer_module
from experiments.benchmarks import table as benchmark
from experiments.benchmarks.case import Case, Rounds, measure
from experiments.benchmarks.contention import Usage, share_of_others, usage
from experiments.benchmarks.limits import Speeds
from experiments.benchmarks.peer import Peer


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as the harness knows, nobody else computes: the tests' own rounds take no time."""
    monkeypatch.setattr(case_module, "usage", lambda: None)


def test_noisy_rounds_are_repeated_and_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    # Others computed in round 2, and the machine was slow in round 4: rounds 1, 3 and 5 are left.
    others, matmul = iter([0.0, 1.0, 0.0, 0.0, 0.0]), iter([8.0, 8.0, 8.0, 4.0, 8.0])
    theirs = iter([9.0, 5.0, 50.0, 6.0, 20.0, 7.0])
    monkeypatch.setattr(case_module, "share_of_others", lambda before, after: next(others))
    case = Case("x", "s", lambda: 1.0, lambda: next(theirs))
    row = measure(case, 3, lambda: Speeds(next(matmul), 1.0, 1.0))
    assert row["samples_theirs"] == [5.0, 6.0, 7.0] and row["ratio"] == 6.0
    assert (row["rounds"], row["noisy_rounds"]) == (3, 0)


def test_what_stays_noisy_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    others = iter([0.9, 0.5, 0.7, 0.4, 0.8, 0.6])
    theirs = iter([0.0, 9.0, 5.0, 7.0, 4.0, 8.0, 6.0])
    monkeypatch.setattr(case_module, "share_of_others", lambda before, after: next(others))
    row = measure(Case("x", "s", lambda: 1.0, lambda: next(theirs)), 2, lambda: SPEEDS)
    assert row["samples_theirs"] == [5.0, 4.0], "the least noisy, in their order"
    assert row["noisy_rounds"] == 2 and row["processors_of_others"] == pytest.approx(0.45)
    text = benchmark.table([{"module": "m", "date": "today", **row}], MACHINE)
    assert "NOISY: others kept 0.5 processors busy, and 2 of the rounds were not quiet" in text


SPEEDS = Speeds(matmul=8e9, memory=2e9, generator=1e6)
MACHINE = {
    "cores": 2,
    "processor": "p",
    "backend": "cpu",
    **SPEEDS._asdict(),
    "jax": "0",
    "date": "today",
    "load_before": 0.0,
}


def test_others_are_what_the_machine_did_less_what_ours_did() -> None:
    before, after = Usage(100.0, 10.0, 5.0), Usage(107.0, 13.0, 7.0)
    assert share_of_others(before, after) == pytest.approx(2.0)
    assert share_of_others(None, after) == share_of_others(before, None) == 0.0
    assert share_of_others(after, after) == 0.0


@pytest.mark.skipif(usage() is None, reason="needs the accounts that Linux keeps in /proc")
def test_ours_are_a_process_and_all_that_descend_from_it() -> None:
    spin = "sum(i * i for i in range(8_000_000))"
    inner = [sys.executable, "-c", f"{spin}; print(flush=True); input()"]
    outer = f"import subprocess; subprocess.run({inner!r})"
    before = usage()
    with subprocess.Popen(
        [sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()  # the grandchild has computed and is still there
        during = usage()
        child.communicate(b"\n")
    assert during.ours - before.ours >= 0.1
    assert during.machine - before.machine >= during.ours - before.ours - 0.1


def test_ratio_is_the_median_of_paired_rounds_and_the_first_call_is_not_counted() -> None:
    # Load doubles in round 2: both sides see it, and the ratio does not.
    ours, theirs = iter([100.0, 1.0, 2.0, 1.0]), iter([100.0, 5.0, 10.0, 6.0])
    case = Case("x", "s", lambda: next(ours), lambda: next(theirs), "them", 5.0)
    row = measure(case, 3, lambda: SPEEDS)
    assert row["ours"] == 1.0 and row["theirs"] == 6.0
    assert (row["ratio"], row["ratio_low"], row["ratio_high"]) == (5.0, 5.0, 6.0)
    assert "limit" not in row, "nothing was said of what it needs"


def test_sides_take_turns() -> None:
    order: list[str] = []

    def side(name: str) -> float:
        order.append(name)
        return 1.0

    def speeds() -> Speeds:
        order.append("p")
        return SPEEDS

    floors = {"a part": lambda: side("f")}
    parts = {"all of it": 1.0}

    def where() -> dict[str, float]:
        order.append("w")
        return parts

    case = Case("x", "s", lambda: side("o"), lambda: side("t"), floors=floors, parts=where)
    assert measure(case, 2, speeds)["parts"] == parts
    assert "".join(order) == "ot" + "poft" * 2 + "w"


def test_the_largest_share_is_the_limit_that_binds() -> None:
    # In one millisecond: 4e6 operations take 0.5 ms, 2e5 bytes 0.1 ms, 300 random words 0.3 ms.
    case = Case("x", "ms", lambda: 1.0, flops=4e6, moved=2e5, draws=300, seconds=1e-3)
    row = measure(case, 5, lambda: SPEEDS)
    assert "ratio" not in row and row["rounds"] == 5
    assert row["limit"] == "matmul peak" and row["share_of_limit"] == pytest.approx(0.5)
    want = {"matmul peak": 0.5, "memory bandwidth": 0.1, "random numbers": 0.3}
    assert row["shares_of_limits"] == pytest.approx(want)
    # What cannot be left out is timed alone, in the unit of the row.
    row = measure(replace(case, floors={"imports": lambda: 0.75}), 1, lambda: SPEEDS)
    assert row["limit"] == "imports" and row["share_of_limit"] == 0.75


def test_shares_of_limits_are_paired_by_round() -> None:
    # The machine is at half its speed in round 2, and so are we.
    ours, matmul = iter([9.0, 1.0, 2.0, 1.0]), iter([8e9, 4e9, 8e9])
    case = Case("x", "s", lambda: next(ours), flops=4e9)
    rounds = Rounds()
    for _ in range(3):
        rounds.speeds.append(Speeds(next(matmul), 1.0, 1.0))
    case.ours()
    for _ in range(3):
        rounds.ours.append(case.ours())
        rounds.floors.append({})
    assert rounds.shares_of_limits(case) == {"matmul peak": 0.5}


def test_speeds_of_this_machine_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    steady(monkeypatch)
    speeds = limits.machine_speeds()
    assert all(1e3 < speed < 1e15 for speed in (*speeds(), *speeds()))


def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose speeds are the same in every round, and that nobody else uses."""
    monkeypatch.setattr(benchmark, "machine_speeds", lambda: lambda: SPEEDS)
    monkeypatch.setattr(case_module, "share_of_others", lambda before, after: 0.0)


def test_time_goes_to_products_copies_and_the_rest() -> None:
    spent = {
        "dot_general.3": 30.0,
        "ynn_fusion": 10.0,
        "wrapped_copy.1": 15.0,
        "slice_bitcast_fusion.7": 5.0,
        "broadcast_multiply_fusion": 40.0,
        "while.25": 900.0,  # holds the others
        "ThunkExecutor::Execute": 900.0,
        "end: wrapped_copy.1": 7.0,
        "$profiler.py:307 trace": 9.0,
    }
    want = {"matrix products": 0.4, "copies and slices": 0.2, "other operations": 0.4}
    assert profiled.shares_by_kind(spent) == pytest.approx(want)
    assert profiled.shares_by_kind({"while.25": 1.0}) == {}


def test_the_profiler_sees_products() -> None:
    x = jnp.ones((300, 300))
    product = jax.jit(lambda x: jnp.tanh(x @ x))
    jax.block_until_ready(product(x))
    found = profiled.time_by_kind(lambda: jax.block_until_ready(product(x)))
    assert found["matrix products"] > 0 and sum(found.values()) == pytest.approx(1)


def test_parts_are_left_out_on_another_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    case = Case(
        "x", "s", lambda: 1.0, flops=4e9, parts=lambda: profiled.time_by_kind(lambda: 1 / 0)
    )
    row = measure(case, 2, lambda: SPEEDS)
    assert row["parts"] == {} and row["limit"] == "matmul peak"
    text = benchmark.table([{"module": "m", "date": "today", "backend": "gpu", **row}], MACHINE)
    assert "Where it goes" not in text
    assert "Of 1 rows, 1 on gpu; the others on a CPU." in text


def test_modules_are_discovered_by_their_cases() -> None:
    found = benchmark.discover()
    assert "toy_training" in found
    assert "case" not in found and "peer" not in found


def test_table_and_files_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    case = Case(
        name="a thing",
        unit="s",
        ours=lambda: 1.0,
        theirs=lambda: 3.0,
        peer="them",
        target=2.0,
        wanted="50 %",
        floors={"imports": lambda: 0.25, "drawing": lambda: 0.5},
        parts=lambda: {"copies": 0.3, "products": 0.7},
        note="as fair as it gets",
    )
    bare = Case("another", "s", lambda: 1.0)
    mine = SimpleNamespace(cases=lambda stack: [case, bare])
    monkeypatch.setattr(benchmark, "discover", lambda: {"mine": mine})
    steady(monkeypatch)
    # Two rounds of each row: 40 and 50 MB more than there were, then 7 and 6.
    present, peaks = iter([900.0, 900.0, 901.0, 902.0]), iter([940.0, 950.0, 908.0, 908.0])
    monkeypatch.setattr(case_module, "present_mb", lambda: next(present))
    monkeypatch.setattr(case_module, "peak_mb", lambda: next(peaks))
    benchmark.main(["--out", str(tmp_path), "--rounds", "2"])
    text = (tmp_path / "benchmarks.md").read_text()
    assert "| a thing | 1 s | 3 s | 3.0x (3.0 to 3.0) | 2x, 50 % | drawing | 50% | them |" in text
    assert "| another | 1 s | - | - | - | - | - | - |" in text
    assert (
        "- a thing: as fair as it gets. Other limits: imports 25%. "
        "Where it goes: products 70%, copies 30%. Memory of the process: 950 MB at the most, "
        f"50 of them in a round of ours. 2 rounds, {time.strftime('%Y-%m-%d')}." in text
    )
    assert "- another: Memory of the process: 908 MB at the most, 7 of them in a round" in text
    assert "Every row was measured on a CPU" in text
    assert text in capsys.readouterr().out
    record: dict[str, Any] = json.loads((tmp_path / "benchmarks.json").read_text())
    assert record["rows"][0]["samples_theirs"] == [3.0, 3.0]
    assert record["machine"]["matmul"] == SPEEDS.matmul


def test_rows_of_other_modules_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {"a": 1.0, "b": 2.0}

    def cases(name: str) -> list[Case]:
        return [Case(f"thing {name}", "s", lambda: ours[name])]

    known = {name: SimpleNamespace(cases=lambda stack, name=name: cases(name)) for name in ours}
    monkeypatch.setattr(benchmark, "discover", lambda: known)
    steady(monkeypatch)
    benchmark.main(["--out", str(tmp_path), "--rounds", "1"])
    ours |= {"a": 3.0, "b": 4.0}
    benchmark.main(["--out", str(tmp_path), "--rounds", "1", "--only", "b"])
    rows = json.loads((tmp_path / "benchmarks.json").read_text())["rows"]
    assert [(row["name"], row["ours"]) for row in rows] == [("thing a", 1.0), ("thing b", 4.0)]
    known["a"].WHEN_NAMED = True
    ours |= {"a": 5.0, "b": 6.0}
    benchmark.main(["--out", str(tmp_path), "--rounds", "1"])
    rows = json.loads((tmp_path / "benchmarks.json").read_text())["rows"]
    assert [(row["name"], row["ours"]) for row in rows] == [("thing a", 1.0), ("thing b", 6.0)]

    def stop() -> float:
        raise KeyboardInterrupt

    known["b"].cases = lambda stack: [Case("thing b", "s", stop)]
    with pytest.raises(KeyboardInterrupt):
        benchmark.main(["--out", str(tmp_path), "--rounds", "1", "--only", "a,b"])
    rows = json.loads((tmp_path / "benchmarks.json").read_text())["rows"]
    assert [(row["name"], row["ours"]) for row in rows] == [("thing a", 5.0), ("thing b", 6.0)]


def test_what_is_done_once_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter((7.0, 8.0))
    steady(monkeypatch)
    row = measure(Case("long", "s", lambda: next(seconds), once=True), 5, lambda: SPEEDS)
    assert row["samples_ours"] == [7.0] and row["rounds"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "nothing"], "--only=nothing must be one of toy_training"),
        (["--rounds", "0"], "--rounds=0 must be at least 1"),
    ],
)
def test_wrong_arguments_stop_at_once(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    toy = SimpleNamespace(cases=lambda stack: [])
    monkeypatch.setattr(benchmark, "discover", lambda: {"toy_training": toy})
    with pytest.raises(SystemExit) as stop:
        benchmark.main(arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_errors_name_the_argument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="n_rounds=0 must be at least 1"):
        measure(Case("x", "s", lambda: 1.0), 0, lambda: SPEEDS)
    monkeypatch.setattr(peer_module, "PYTHON", tmp_path / ".venv-bench" / "bin" / "python")
    with pytest.raises(FileNotFoundError, match="run `make benchmark`"):
        Peer("toy_models_torch.py")


def test_a_peer_answers_lines_and_says_when_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "experiments" / "benchmarks" / "peers" / "echo.sh"
    script.parent.mkdir(parents=True)
    script.write_text('read line; echo "{\\"got\\": $line}"; exit 3')
    monkeypatch.setattr(peer_module, "ROOT", tmp_path)
    monkeypatch.setattr(peer_module, "PYTHON", Path("/bin/sh"))
    with Peer("echo.sh") as peer:
        assert peer.ask(steps=2) == {"got": {"steps": 2}}
        with pytest.raises(RuntimeError, match="the peer ended with status 3"):
            peer.ask(steps=3)


def product_flops(jaxpr: Any) -> float:
    """Multiplications and additions of every matrix product, loops unrolled."""
    total = 0.0
    for equation in jaxpr.eqns:
        inner = [p.jaxpr for p in equation.params.values() if hasattr(p, "jaxpr")]
        times = equation.params["length"] if equation.primitive.name == "scan" else 1
        total += times * sum(product_flops(each) for each in inner)
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            lhs, result = equation.invars[0].aval.shape, equation.outvars[0].aval.shape
            total += 2.0 * np.prod(result) * np.prod([lhs[axis] for axis in contracted])
    return total


@pytest.mark.parametrize("size", [language_training.LARGE, *language_training.TINY])
def test_operations_of_a_training_step_are_three_forward_passes(
    size: language_training.Size,
) -> None:
    spec = language_training.training_problem(size).module.spec
    assert (spec.norm, spec.final_norm, spec.d_mlp, spec.biases) == ("none", False, None, False)
    model = jax.eval_shape(lambda: init(jax.random.key(0), spec))
    tokens = jax.ShapeDtypeStruct((size.context,), jnp.int32)
    traced = jax.make_jaxpr(lambda model, tokens: forward(model, tokens)[0])(model, tokens)
    assert 3 * product_flops(traced.jaxpr) == size.context * size.flops_a_token


def test_the_numpy_search_finds_the_largest_entries() -> None:
    left, right = (a.astype(np.float64) for a in token_circuit.factors(70))
    want = np.sort((left @ right).ravel())[::-1][:9]
    for rows in (1, 16, 70, 100):
        np.testing.assert_allclose(token_circuit.numpy_top_k(left, right, 9, rows), want)


def test_meeting_in_the_middle_gives_every_path() -> None:
    model, direction = path_ledger.frozen(3, 2, 0.5, n_ctx=5)
    values = path_ledger.meet_in_the_middle(model, 4, np.asarray(direction))
    streams = np.asarray(path_streams(model))[:, 4] @ np.asarray(direction)
    assert values.size == len(streams) == 27
    # One head in each of two layers, two positions: no head, one of two, both, from either place.
    assert path_ledger.n_position_paths(2, 1, 2) == 1 + 2 * 2 + 3
    np.testing.assert_allclose(np.sort(values.ravel()), np.sort(streams), atol=1e-5)


def test_a_small_process_started_by_a_large_one_is_small() -> None:
    large = np.ones(60_000_000)  # 480 MB
    command = [
        sys.executable,
        "-c",
        "from experiments.benchmarks import memory; print(memory.peak_mb())",
    ]
    child = subprocess.run(command, check=True, capture_output=True, text=True)
    assert large[-1] == 1
    assert float(child.stdout) < 100 < 480 < memory.peak_mb()


def test_a_start_is_timed_to_its_first_steps_and_the_run_is_stopped_there() -> None:
    began = time.perf_counter()
    start = start_up.first_steps("toy_intro")
    waited = time.perf_counter() - began
    assert 0 < start.chunk < start.total < waited and start.total + start.imports <= waited
    assert start.imports > 0


def test_a_start_that_fails_says_so() -> None:
    with pytest.raises(RuntimeError, match="no_such ended before its first steps"):
        start_up.first_steps("no_such")


def test_growth_is_what_came_after_the_first_two_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As a worker whose jobs of 40 MB each are never released, and which ends by itself. It goes on
    # when it has been looked at, so that nothing hangs on how fast either is.
    worker = """
import pathlib, sys
kept = []
for job in range(4):
    kept.append(b"x" * 40_000_000)
    print(flush=True)
    input()
    run = pathlib.Path(sys.argv[1], "toy_intro", str(job))
    run.mkdir(parents=True)
    (run / "provenance.json").touch()
    print(flush=True)
    input()
"""
    looks = []

    def look(processes: set[int]) -> tuple[int, float]:
        looks.append(processes)
        return occupied(processes)

    occupied = sweep.occupied
    monkeypatch.setattr(sweep, "occupied", look)
    monkeypatch.setattr(sweep, "_INTERVAL", 0.01)
    command = [sys.executable, "-c", worker, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        watch = sweep.Watch(process.pid, tmp_path)
        try:
            while process.stdout.readline():
                # The look that was under way, one that saw what is now, and the one after it.
                enough = len(looks) + 3
                while len(looks) < enough:
                    time.sleep(0.005)
                process.stdin.write("\n")
                process.stdin.flush()
        finally:
            watch.end()
    assert 70 < watch.most[1] - watch.first[1] < 90
    assert watch.first[1] > 80 and watch.most[0] >= watch.first[0] > 10
    assert occupied({process.pid}) == (0, 0.0), "it has ended"


def test_growth_is_read_from_the_sweeps_that_were_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([sweep.Sweep(3.0, 1.2, 0.3, 10, 1.5), sweep.Sweep(2.0, 1.0, 0.4, 700, 40.0)])
    plain = sweep.Sweep(1.0, 0.5, 0.2, 5, 0.5)
    monkeypatch.setattr(
        sweep, "sweep", lambda restarts=sweep.RESTARTS: next(found) if restarts else plain
    )
    monkeypatch.setattr(sweep, "imports_alone", lambda experiment: 2.0)
    with ExitStack() as stack:
        seconds, without_optimum, maps, megabytes = sweep.cases(stack)
    assert [seconds.ours(), seconds.ours(), without_optimum.ours()] == [3.0, 2.0, 1.0]
    assert (maps.ours(), megabytes.ours()) == (700.0, 40.0)
    for case, compiling in ((seconds, 1.0), (without_optimum, 0.5)):
        (floor,) = case.floors.values()
        assert floor() == pytest.approx(2.0 / sweep.JOBS + compiling)
    want = {"compiling": 0.45, "drawing": 0.15, "all else, from the start to the checks": 0.4}
    assert seconds.parts() == pytest.approx(want)


def test_a_sweep_that_fails_is_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "_SWEEP", ("experiment=no_such",))
    with pytest.raises(RuntimeError, match="the sweep ended with exit status 2"):
        sweep.sweep(jobs=2)


def test_a_first_optimum_is_timed_and_the_second_process_reads_what_the_first_compiled(
    tmp_path: Path,
) -> None:
    size = first_optimum.Size(n_features=2, n_hidden=1, n_cells=2, n_restarts=2)
    cold = first_optimum.first_optimum(size, tmp_path)
    kept = {path.name for path in tmp_path.rglob("*-cache")}
    warm = first_optimum.first_optimum(size, tmp_path)
    for each in (cold, warm):
        assert each.whole > each.call > each.tracing + each.compiling > each.compiling > 0
        assert 0 < each.again < each.call
    # All that the second needs is there: it writes no program of its own.
    assert kept and {path.name for path in tmp_path.rglob("*-cache")} == kept


def test_parts_of_a_first_optimum_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([first_optimum.First(9.0, 7.0, 1.0, 5.0, 0.5)] * 2)
    monkeypatch.setattr(first_optimum, "first_optimum", lambda size, cache: next(found))
    monkeypatch.setattr(first_optimum, "imports_alone", lambda: 1.75)
    with ExitStack() as stack:
        cold, _ = first_optimum.cases(stack)
        assert cold.ours() == cold.ours() == 9.0
    (floor,) = cold.floors.values()
    assert floor() == 2.25
    want = {"start and imports": 2 / 9, "tracing": 1 / 9, "compiling": 5 / 9, "computing": 1 / 9}
    assert cold.parts() == pytest.approx(want)


def test_the_large_cloud_is_measured_over_every_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []
    monkeypatch.setattr(jl_large, "N_POINTS", 40)
    monkeypatch.setattr(jl_large, "DIM_IN", 30)
    monkeypatch.setattr(jl_large, "DIM_OUT", 12)

    def summarise(stream: Stream, **settings: Any) -> Summary:
        kept.append(whole(stream, **settings))
        return kept[-1]

    whole = jl_large.summarise
    monkeypatch.setattr(jl_large, "summarise", summarise)
    seconds, megabytes = jl_large._once()
    assert seconds > 0 and 100 < megabytes < 10_000
    assert kept[0].n_used == 40 * 39 // 2
    # Squared lengths of Gaussian maps have a relative variance of 2 / m.
    assert kept[0].std == pytest.approx((2 / 12) ** 0.5, rel=0.4)


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="needs Linux to forget a peak"
)
def test_a_peak_that_is_forgotten_does_not_count() -> None:
    probe = (
        "from experiments.benchmarks.memory import forget_peak, peak_mb\n"
        "held = bytearray(200 * 2**20)\n"
        "del held\n"
        "before = peak_mb()\n"
        "forget_peak()\n"
        "print(before, peak_mb())"
    )
    done = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True)
    before, after = map(float, done.stdout.split())
    assert before > 200 > 100 > after
