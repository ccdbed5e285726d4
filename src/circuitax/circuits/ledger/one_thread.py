"""One thread for the many small products and decompositions of a search on the host."""

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[object]:
    """Context in which NumPy's BLAS and LAPACK use one thread of this process.

    Matrices of a head's width are too small to be shared: a second thread waits, in a loop that
    keeps its core busy. Eigenvalues of 64 x 64 matrices took eight times the processor time with
    two threads.
    """
    found: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return found


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all loaded libraries
