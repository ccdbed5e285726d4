"""When a worker of a sweep forgets what it has compiled."""

import pytest

from circuitax.commands import worker
from circuitax.lab.compilation import Footprint

FIRST = Footprint(maps=5000, megabytes=400.0)


@pytest.mark.parametrize(
    ("freed", "compiled", "shrunk", "small"),
    [
        ((0, 150), (1900, 40), [], True),
        ((0, 150), (0, 60), ["freed"], True),
        ((0, 150), (2100, 210), ["freed", "compiled"], True),
        ((0, 0), (2100, 0), ["freed", "compiled"], True),
        ((0, 0), (0, 0), ["freed", "compiled"], False),
    ],
)
def test_compiled_code_is_released_after_freed_memory_only(
    freed: tuple[int, int],
    compiled: tuple[int, int],
    shrunk: list[str],
    small: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Maps and megabytes, free or of code; the last worker has grown by something else."""
    grown = {"freed": freed, "compiled": compiled, "else": (0, 0) if small else (0, 250)}
    done: list[str] = []

    def footprint() -> Footprint:
        maps, megabytes = (sum(part) for part in zip(*grown.values(), strict=True))
        return Footprint(FIRST.maps + maps, FIRST.megabytes + megabytes)

    def shrink(part: str) -> None:
        done.append(part)
        grown[part] = (0, 0)

    monkeypatch.setattr(worker, "footprint", footprint)
    monkeypatch.setattr(worker, "return_freed_memory", lambda: shrink("freed"))
    monkeypatch.setattr(worker, "release_compiled_code", lambda: shrink("compiled"))
    assert worker._small_again(FIRST) is small
    assert done == shrunk
