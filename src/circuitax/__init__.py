"""circuitax: differentiable circuit experiments in JAX.

Import what you need from the floor it lives on, for example
``from circuitax.kernel.kron import Kron``. This file imports nothing.
"""
