"""Test session: eight simulated CPU devices, no rank promotion, derandomised properties.

What JAX compiles is kept on disk between sessions, in ``.cache/tests`` of the checkout. Tests that
take longer are named in ``slow.txt``: ``make test`` leaves them to ``make thorough``.
"""

import hashlib
import html
import importlib.metadata
import json
import logging
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from circuitax.kernel.compiled import use_fast_compile_flags

# The suite compiles much and computes little: eight devices, and no time spent on optimisation.
use_fast_compile_flags()
_JAXLIB = importlib.metadata.version("jaxlib")

_CACHE_BYTES = 500_000_000  # beyond this the cache starts anew


def _compilation_cache(folder: Path) -> Path:
    """A folder for this Python, this JAX and this processor, emptied if it has grown too large."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    features = {line for line in lines if line.startswith(("model name", "flags", "Features"))}
    processor = "\n".join([platform.machine(), platform.processor(), *sorted(features)])
    target = folder / "-".join(
        (
            f"python{sys.version_info.major}.{sys.version_info.minor}",
            f"jax{_JAXLIB}",
            hashlib.sha256(processor.encode()).hexdigest()[:8],
        )
    )
    if sum(path.stat().st_size for path in target.glob("*")) > _CACHE_BYTES:
        shutil.rmtree(target)
    return target


# JAX reads these when it is imported. The processes that tests start, among them the workers of
# pytest-xdist, inherit them and share the cache.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    _folder = Path(__file__).parent.parent / ".cache" / "tests"
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(_compilation_cache(_folder))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

from collections.abc import Callable, Iterator

import absl.logging
import hypothesis
import jax
import jaxtyping
import numpy as np
import pytest

from circuitax.cores import multiply_in_float32

jax.config.update("jax_numpy_rank_promotion", "raise")
# As in `cores.one_device_a_core`.
jax.config.update("jax_cpu_enable_async_dispatch", False)
# As commands do; a GPU or TPU would round the factors of products.
multiply_in_float32()

hypothesis.settings.register_profile(
    "circuitax",
    deadline=None,
    derandomize=True,
    max_examples=15,
    suppress_health_check=[
        hypothesis.HealthCheck.too_slow,
        hypothesis.HealthCheck.function_scoped_fixture,
    ],
)
hypothesis.settings.load_profile("circuitax")

# What .ci/ratchets.py reads of a session of `make unit`.
QUICK = "not slow and not mutant"
NOTED = Path(__file__).parents[1] / ".cache" / "suite.json"
_SUITE = {"programs": 0, "cpu_seconds": 0}

SLOW_SECONDS = 1.0  # a test in slow.txt took longer than this, alone on one of two cores
SLOW = Path(__file__).with_name("slow.txt")


def _listed() -> set[str]:
    return {line for line in SLOW.read_text().splitlines() if line and not line.startswith("#")}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--list-slow", action="store_true", help="write the tests that took long to tests/slow.txt"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that slow.txt names, and refuse names of tests that are gone."""
    listed = _listed()
    for item in items:
        if item.nodeid in listed:
            item.add_marker("slow")
    if config.getoption("--list-slow") or any("::" in argument for argument in config.args):
        return
    read = {item.nodeid.partition("::")[0] for item in items}
    here = {name for name in listed if name.partition("::")[0] in read}
    gone = sorted(here - {item.nodeid for item in items})
    if gone:
        raise pytest.UsageError(f"tests/slow.txt names tests that are not there: {gone}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not terminalreporter.config.getoption("--list-slow"):
        return
    seconds: dict[str, float] = {}
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports(""):
        seconds[report.nodeid] = seconds.get(report.nodeid, 0.0) + report.duration
    names = sorted(name for name, took in seconds.items() if took > SLOW_SECONDS)
    head = [line for line in SLOW.read_text().splitlines() if line.startswith("#")]
    SLOW.write_text("\n".join([*head, *names]) + "\n")


_PROGRAMS = [0]


def _count_programs(event: str, seconds: float, **_: object) -> None:
    _PROGRAMS[0] += event == "/jax/core/compile/backend_compile_duration"


jax.monitoring.register_event_duration_secs_listener(_count_programs)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Note what the quick suite compiled and computed, which .ci/ratchets.py holds to ceilings."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["suite"] = (_PROGRAMS[0], time.process_time())


def pytest_testnodedown(node: Any, error: object) -> None:
    """Add up what the workers of pytest-xdist noted."""
    if node.config.getoption("-m") == QUICK and "suite" in getattr(node, "workeroutput", {}):
        programs, seconds = node.workeroutput["suite"]
        _SUITE["programs"] += programs
        _SUITE["cpu_seconds"] += round(seconds)
        NOTED.parent.mkdir(exist_ok=True)
        NOTED.write_text(json.dumps(_SUITE))


@pytest.fixture(autouse=True, scope="module")
def compiled_code() -> Iterator[None]:
    """Let go of what a module compiled: a process dies beyond 65,530 pieces of mapped memory."""
    yield
    jax.clear_caches()


@pytest.fixture
def x64() -> Iterator[None]:
    """Double precision for the length of one test; identities are checked at 1e-12 in it."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def unchecked_types() -> Iterator[None]:
    """The suite checks the types of arguments; a user's session does not."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A NumPy generator seeded by the test's own name."""
    return np.random.default_rng(list(request.node.name.encode()))


@pytest.fixture
def browsed(tmp_path: Path) -> Callable[[str, str], dict[str, str]]:
    """A function of a page and of what follows ``#``: the ``data-…`` that its script notes.

    Without a browser the test is skipped; with a message on its console it fails.
    """
    names = ("chromium", "google-chrome", "chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    if browser is None:
        pytest.skip("no chromium to open pages in")

    def noted(page: str, fragment: str = "") -> dict[str, str]:
        path = tmp_path / "page.html"
        path.write_text(page, encoding="utf-8")
        options = "--headless --no-sandbox --disable-gpu --enable-logging=stderr --v=0 --dump-dom"
        user = f"--user-data-dir={tmp_path / 'user'}"
        command = [browser, *options.split(), "--virtual-time-budget=2000", user]
        done = subprocess.run(
            [*command, path.as_uri() + fragment],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert not [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        return dict(re.findall(r'data-([a-z]+)="([^"]*)"', html.unescape(done.stdout)))

    return noted


@pytest.fixture
def logging_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hydra configures the root logger, with streams that outlive the test's capture."""
    # Doing so closes all handlers, and absl's (Orbax logs there) closes pytest's capture file.
    monkeypatch.setattr(absl.logging.get_absl_handler().python_handler, "stream", sys.__stderr__)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    for handler in root.handlers[:]:
        root.removeHandler(handler)
        if handler not in handlers:
            handler.close()
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level)
