"""Floor 5: common parts of figures; a figure is drawn from a record alone, without JAX."""

import pkgutil

import lazy_loader

_MODULES = [module.name for module in pkgutil.iter_modules(__path__)]
__getattr__, __dir__, _ = lazy_loader.attach(__name__, _MODULES)
