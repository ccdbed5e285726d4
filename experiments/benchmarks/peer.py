"""A peer library in its own environment: a subprocess that answers requests, one JSON line each."""

import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-bench" / "bin" / "python"


class Peer:
    """A running script of ``experiments/benchmarks/peers``; stays warm between requests.

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
            [str(PYTHON), str(ROOT / "experiments" / "benchmarks" / "peers" / script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Nothing of ours on their path.
            env={k: v for k, v in os.environ.items() if not k.startswith("PYTHON")},
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        """The answer to one request.

        Raises:
            RuntimeError: If the script ended instead of answering.
        """
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the peer's pipes are closed")
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
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
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
