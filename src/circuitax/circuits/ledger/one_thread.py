"""One thread for the many small products and decompositions of a search on the host."""

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[object]:
    """Context in which NumPy's BLAS and LAPACK use one thread of this process."""
    found: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return found


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all loaded libraries
