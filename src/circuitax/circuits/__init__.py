"""Floor 2: analyses of transformers as sums of paths: pure functions of models and runs."""

import pkgutil

import lazy_loader

_MODULES = [module.name for module in pkgutil.iter_modules(__path__)]
__getattr__, __dir__, _ = lazy_loader.attach(__name__, _MODULES)
