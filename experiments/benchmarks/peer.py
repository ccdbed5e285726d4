"""A peer library in its own environment: a subprocess that answers requests, one JSON line each."""

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, cast

from circuitax.cores import n_cores

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-bench" / "bin" / "python"


class Peer:
    """A running script of ``experiments/benchmarks/peers``; stays warm between requests.

    Its argument is the number of threads that it may use, as many as we do.

    Args:
        script: Its file name.

    Raises:
        FileNotFoundError: If the peers' environment has not been made.
    """

    def __init__(self, script: str) -> None:
        if not PYTHON.exists():
            raise FileNotFoundError(
                f"the peers' environment {PYTHON.parents[1].name} does not exist: "
                "run `make benchmark`, which makes it"
            )
        self._process = subprocess.Popen(
            [str(PYTHON), str(ROOT / "experiments/benchmarks/peers" / script), str(n_cores())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Nothing of ours on their path.
            env={k: v for k, v in os.environ.items() if not k.startswith("PYTHON")},
        )
        self._stdin = cast(IO[str], self._process.stdin)
        self._stdout = cast(IO[str], self._process.stdout)

    def ask(self, **request: Any) -> dict[str, Any]:
        """The answer to one request.

        Raises:
            RuntimeError: If the script ended instead of answering.
        """
        answer = ""
        with suppress(BrokenPipeError):
            self._stdin.write(json.dumps(request) + "\n")
            self._stdin.flush()
            answer = self._stdout.readline()
        if not answer:
            raise RuntimeError(f"the peer ended with status {self._process.wait()} on {request}")
        return json.loads(answer)

    def __enter__(self) -> "Peer":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(BrokenPipeError):
            self._stdin.close()  # the script's loop over its input ends
        self._stdout.close()
        self._process.wait()
