"""Two processes, each with half of every batch, train an ensemble to the numbers of one process."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.training import ensemble

# What each process runs; `train` is called in this one too.
WORKER = """
import json, sys
import jax
jax.config.update("jax_cpu_collectives_implementation", "gloo")
address, process, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
jax.distributed.initialize(address, num_processes=2, process_id=process, initialization_timeout=60)
sys.path.insert(0, folder)
import numpy as np
from jax.experimental import multihost_utils
from test_processes import train
from circuitax.training.ensemble import device_mesh

state, metrics = train(device_mesh(data=2))
W, loss = multihost_utils.process_allgather((state.params["W_U"], metrics["loss"]), tiled=True)
if process == 0:
    facts = {"devices": jax.device_count(), "here": jax.local_device_count()}
    print(json.dumps(facts | {"W": np.asarray(W).tolist(), "loss": np.asarray(loss).tolist()}))
"""


def train(mesh):
    """Two chunks of plain SGD of two members, the model and text of `test_sharding`."""
    from circuitax.data.synthetic import RepeatedSource
    from circuitax.kernel.spec import TransformerSpec
    from circuitax.models.transformer import Transformer
    from circuitax.training.language import NextToken
    from circuitax.training.optim import Optimizer, OptimSpec

    spec = TransformerSpec(d_vocab=7, n_ctx=10, n_layers=1, n_heads=2, d_model=8)
    source = RepeatedSource(batch=4, length=10, d_vocab=7, min_period=3, max_period=5)
    optim = OptimSpec(Optimizer.sgd, learning_rate=0.1, weight_decay=0.0, steps=6)
    plan = ensemble.Plan(NextToken(Transformer(spec), source), optim, chunk=3, mesh=mesh)
    members = ensemble.new_members(jax.random.key(0), jnp.array([0.1, 0.2]), jnp.zeros(2))
    state, advance = ensemble.init(plan, members), ensemble.advance(plan, members)
    for _ in range(2):
        state, metrics = advance(state)
    return state, metrics


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@pytest.mark.slow
def test_an_ensemble_trains_alike_in_two_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    flags = re.sub(r"(device_count=)\d+", r"\g<1>1", os.environ["XLA_FLAGS"])
    monkeypatch.setenv("XLA_FLAGS", flags)
    address, here = free_address(), str(Path(__file__).parent)
    workers = [
        subprocess.Popen(
            [sys.executable, str(script), address, str(process), here],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for process in range(2)
    ]
    try:
        said = [worker.communicate(timeout=120) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert [worker.returncode for worker in workers] == [0, 0], said
    found = json.loads(said[0][0].splitlines()[-1])
    assert (found["devices"], found["here"]) == (2, 1), "each process has one of the two"
    state, metrics = train(None)
    loss = np.array(found["loss"])
    assert loss.shape == (2,) and abs(loss[0] - loss[1]) > 1e-4
    np.testing.assert_allclose(loss, metrics["loss"], rtol=2e-5)
    np.testing.assert_allclose(found["W"], state.params["W_U"], rtol=2e-5, atol=2e-6)
