"""Floor 1: synthetic tasks and text; a batch is a pure function of a key and a step."""

import pkgutil

import lazy_loader

_MODULES = [module.name for module in pkgutil.iter_modules(__path__)]
__getattr__, __dir__, _ = lazy_loader.attach(__name__, _MODULES)
