"""Floor 0: the mathematics of arrays, containers of weights, and the one forward pass."""

import pkgutil

import lazy_loader

_MODULES = [module.name for module in pkgutil.iter_modules(__path__)]
__getattr__, __dir__, _ = lazy_loader.attach(__name__, _MODULES)
