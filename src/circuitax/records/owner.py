"""Owner process of a hidden file, identified beyond its process number.

In a container, every start has the same process id. So an owner is an id, the moment when the
process started, and the machine, as one word that fits into a file name.
"""

import hashlib
import os
import re
import socket
import subprocess
from contextlib import suppress
from enum import Enum
from pathlib import Path

# What an owner is in a pattern of file names; one of an earlier version is an id alone.
OWNER = r"\d+(?:-\w+-\w+)?"


class State(Enum):
    """State of an owner process, as known on this machine."""

    alive = "alive"
    gone = "gone"
    unknown = "unknown"  # of another machine, or of another container


def this_process() -> str:
    """This process as an owner."""
    return f"{os.getpid()}-{_started(os.getpid())}-{_host()}"


def state(owner: str) -> State:
    """State of an owner.

    Args:
        owner: From ``this_process``, of any process on any machine.
    """
    number, _, rest = owner.partition("-")
    started, _, host = rest.partition("-")
    if host != _host():
        return State.unknown
    return State.alive if _started(int(number)) == started else State.gone


def _host() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def _started(process: int) -> str:
    """Start time of a process, as one word; empty if no process has this number."""
    if Path("/proc/self/stat").exists():
        try:
            text = Path(f"/proc/{process}/stat").read_text(errors="replace")
        except OSError:
            return ""
        return text.rpartition(")")[2].split()[19]  # clock ticks since the machine started
    command = ["ps", "-o", "lstart=", "-p", str(process)]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:  # no such program: a number in use counts as the same process
        with suppress(PermissionError):  # of another user's
            try:
                os.kill(process, 0)
            except ProcessLookupError:
                return ""
        return "there"
    return re.sub(r"\W", "", told)
