"""A Slurm of one node on loopback, with accounting, for tests of the launchers.

All it writes is in one folder, and it ends with the ``with`` block that started it. It needs the
programs of Debian's packages slurm-wlm, slurmdbd, munge and mariadb-server, and root.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

NEEDED = (
    *("munged", "mungekey", "mariadbd", "mariadb-install-db", "mariadb"),
    *("slurmdbd", "slurmctld", "slurmd", "sbatch", "sacctmgr"),
)
LOW, HIGH = "low", "high"  # partitions: a job of the second puts one of the first back in the queue
CPUS = 2  # jobs of one CPU at a time, however many the machine has
PATIENCE = 60.0  # seconds for a daemon to answer

SLURM = """\
ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
# No control groups and no systemd: nothing binds a job to its processors.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={accounting}
AccountingStoragePass={folder}/munge.socket
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=500
ReturnToService=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
# What a job that makes room has between its first signal and the last one.
KillWait=30
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={cpus}200 State=UNKNOWN
PartitionName={low} Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE State=UP
PartitionName={high} Nodes=ALL PriorityTier=9 PreemptMode=OFF State=UP
"""
ACCOUNTING = """\
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={accounting}
SlurmUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database}
StorageUser=slurm
StoragePass=loopback
StorageLoc=slurm
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
"""
DATABASE = """\
create database slurm;
create user 'slurm'@'127.0.0.1' identified by 'loopback';
grant all on slurm.* to 'slurm'@'127.0.0.1';
"""


def missing() -> list[str]:
    """Programs that are not installed, and the rights that are not given."""
    absent = [name for name in NEEDED if shutil.which(name, path=_PATH) is None]
    return absent + (["the rights of root"] if os.geteuid() != 0 else [])


@contextmanager
def running(folder: Path) -> Iterator[dict[str, str]]:
    """A cluster, and what its clients need in their environment.

    Args:
        folder: Empty, with a short path, as sockets must have.
    """
    host = socket.gethostname().split(".")[0]
    ports = dict(zip(("controller", "node", "accounting", "database"), _ports(4), strict=True))
    facts = {"folder": folder, "host": host, "user": "root", "cpus": CPUS, "low": LOW, "high": HIGH}
    for name, text in (("slurm.conf", SLURM), ("slurmdbd.conf", ACCOUNTING)):
        (folder / name).write_text(text.format(**facts, **ports))
        (folder / name).chmod(0o600)
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    environment = {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": _PATH}
    with ExitStack() as daemons:

        def start(*command: object) -> None:
            daemons.enter_context(_daemon(command, folder, environment))

        def call(*command: str, text: str = "") -> bool:
            return _call(command, environment, text).returncode == 0

        key, socket_ = folder / "munge.key", folder / "munge.socket"
        _require(call("mungekey", "--create", f"--keyfile={key}"), "mungekey")
        places = [f"--{name}-file={folder}/munge.{name}" for name in ("pid", "log", "seed")]
        start(
            *("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={socket_}"),
            *places,
        )
        _until(socket_.exists, "munged")

        data, door = f"--datadir={folder}/database", f"--socket={folder}/database.socket"
        _require(
            call("mariadb-install-db", "--no-defaults", data, "--user=root", "--skip-test-db"),
            "mariadb-install-db",
        )
        start(
            *("mariadbd", "--no-defaults", "--user=root", data, door),
            *("--bind-address=127.0.0.1", f"--port={ports['database']}"),
            *("--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=900"),
        )
        client = ("mariadb", "--no-defaults", door)
        _until(lambda: call(*client, "--execute=select 1"), "mariadbd")
        _require(call(*client, text=DATABASE), "the database")

        start("slurmdbd", "-D")
        _until(lambda: call("sacctmgr", "-n", "list", "cluster"), "slurmdbd")
        _require(call("sacctmgr", "-i", "add", "cluster", "loopback"), "the cluster")
        start("slurmctld", "-D", "-c")
        _until(lambda: call("scontrol", "ping"), "slurmctld")
        start("slurmd", "-D")
        _until(lambda: b"idle" in _call(("sinfo", "-h"), environment, "").stdout, "slurmd")
        yield environment
        call("scancel", "--user=root")
        _until(lambda: not _call(("squeue", "-h"), environment, "").stdout, "the last jobs")


_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


@contextmanager
def _daemon(
    command: tuple[object, ...], folder: Path, environment: Mapping[str, str]
) -> Iterator[None]:
    """A program in the foreground until the end of the block."""
    with (folder / f"{command[0]}.out").open("w") as out:
        process = subprocess.Popen(
            [str(part) for part in command],
            env={**os.environ, **environment},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _call(
    command: tuple[str, ...], environment: Mapping[str, str], text: str
) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        command, env={**os.environ, **environment}, input=text.encode(), capture_output=True
    )


def _until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        _require(time.monotonic() < deadline, f"{what} within {PATIENCE:.0f} s")
        time.sleep(0.3)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise RuntimeError(f"the test's Slurm could not start: {what}")


def _ports(count: int) -> list[int]:
    """Ports that nobody uses."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
