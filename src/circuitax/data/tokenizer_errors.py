"""What the `tokenizers` library cannot do, as one error of one line.

It has one bare Exception for everything, and where it panics, a BaseException that no caller
expects and pages of a Rust traceback on the standard error stream.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from circuitax.data.corpus import TextError


@contextmanager
def refused_as(must: str) -> Iterator[None]:
    """Whatever the library raises inside, panics too, is a TextError that begins with ``must``."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise TextError(f"{must}: {(str(error).splitlines() or [''])[0][:200]}") from None


@contextmanager
def silent() -> Iterator[None]:
    """Nothing is written to the standard error stream, by no thread: for short calls only."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
