"""What a run depends on: syntax, not prose; its own imports, not everything; its libraries."""

from importlib import metadata
from pathlib import Path

import pytest

from circuitax.config.catalogue import checkout
from circuitax.lab.source import NO_NUMBERS, numbers_hash, source_files, source_hash

TEXT = '''"""What it does."""

from pack.a import value


class Spec:
    """Its fields."""

    rate: float = 0.1  # a comment


def run(spec):
    """Run it."""
    return value * 2.5
'''


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    """An experiment in a folder of its own, with a helper beside it."""
    texts = {
        "toy/__init__.py": "",
        "toy/experiment.py": "from toy.helper import half\n\n\ndef run():\n    return half\n",
        "toy/helper.py": "half = 0.5\n",
        "toy/claims.py": "CLAIMS = ()\n",
        "other/helper.py": "half = 0.5\n",
    }
    write(tmp_path, texts)
    return tmp_path / "toy" / "experiment.py"


def write(folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_imports_are_followed(tmp_path: Path) -> None:
    texts = {
        "start.py": "import os\nimport pack.sub.b\nfrom pack import a\n",
        "pack/__init__.py": "NAMES = {'late': 'circuitax.never'}\n",
        "pack/a.py": "def late():\n    from pack.c import thing\n",
        "pack/c.py": "try:\n    import pack.h\nexcept ImportError:\n    import pack.i\n",
        "pack/d.py": "unused = 1\n",
        "pack/sub/__init__.py": "",
        "pack/sub/b.py": "import pack.a\nfrom .e import x\nfrom . import f\nfrom ..g import y\n",
        "pack/sub/e.py": "x = 1\n",
        "pack/sub/f.py": "",
        "pack/g.py": "y = 1\n",
        "pack/h.py": "match 1:\n    case 1:\n        import pack.j\n",
        "pack/i.py": "if 1:\n    pass\nelse:\n    import pack.k\n",
        "pack/j.py": "",
        "pack/k.py": "",
    }
    write(tmp_path, texts)
    start, roots = tmp_path / "start.py", {"pack": tmp_path / "pack"}

    def names(*left_out: str) -> set[str]:
        files = source_files(start, roots, left_out)
        return {path.relative_to(tmp_path).as_posix() for path in files}

    assert names() == set(texts) - {"pack/d.py"}
    kept = {f"pack/{name}.py" for name in ("__init__", "a", "c", "h", "i", "j", "k")}
    assert names("pack.sub") == {"start.py", *kept}
    assert "pack/sub/b.py" in names("pack.su")


def test_names_imported_late_count(tmp_path: Path) -> None:
    """A package root that imports a name when it is first used depends on its module."""
    texts = {
        "circuitax/__init__.py": 'PLACES = {"Kron": "circuitax.kernel.kron", "a": "kernel.a"}\n',
        "circuitax/kernel/kron.py": "Kron = 1\n",
        "circuitax/kernel/a.py": "a = 1\n",
        "circuitax/kernel/other.py": 'TEXT = "circuitax.kernel.last"\n',
        "circuitax/kernel/last.py": "",
        "one.py": "import circuitax as cx\n",
    }
    write(tmp_path, texts)
    files = source_files(tmp_path / "one.py", {"circuitax": tmp_path / "circuitax"})
    assert {path.name for path in files} == {"one.py", "__init__.py", "kron.py", "a.py"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""What it does."""', '"""Other words."""'),
        ('"""Its fields."""', '"""Other words."""'),
        ('    """Run it."""\n', ""),
        ("  # a comment", ""),
        ("value * 2.5", "(value * 2.5)"),
        ("\n\n\ndef", "\n\ndef"),
    ],
)
def test_prose_and_layout_keep_the_hash(tmp_path: Path, old: str, new: str) -> None:
    assert old in TEXT
    assert hash_of(tmp_path, TEXT) == hash_of(tmp_path, TEXT.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"), [("2.5", "2.6"), ("0.1", "0.2"), ("value * 2.5", "value / 2.5")]
)
def test_a_number_changes_the_hash(tmp_path: Path, old: str, new: str) -> None:
    assert old in TEXT
    assert hash_of(tmp_path, TEXT) != hash_of(tmp_path, TEXT.replace(old, new))


def hash_of(folder: Path, text: str) -> str:
    write(folder, {"one.py": text})
    return numbers_hash([folder / "one.py"])


def test_what_is_imported_counts_and_what_is_not_does_not(experiment: Path) -> None:
    first = numbers_hash([experiment])
    experiment.with_name("claims.py").write_text("CLAIMS = (1,)\n")
    (experiment.parent.parent / "other" / "helper.py").write_text("half = 0.6\n")
    assert numbers_hash([experiment]) == first
    experiment.with_name("helper.py").write_text("half = 0.6\n")
    assert numbers_hash([experiment]) != first


def test_a_library_of_another_version_changes_the_hash(
    experiment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, version = numbers_hash([experiment]), metadata.version
    for library in ("jax", "jaxlib", "flax", "optax", "numpy"):
        monkeypatch.setattr(
            metadata, "version", lambda name, to=library: "0" if name == to else version(name)
        )
        assert numbers_hash([experiment]) != first, library
    monkeypatch.setattr(metadata, "version", lambda name: "0" if name == "tqdm" else version(name))
    assert numbers_hash([experiment]) == first


def test_what_conducts_runs_changes_the_hash(
    experiment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, read = numbers_hash([experiment]), Path.read_text

    def changed(path: Path, *arguments: str, **options: str) -> str:
        more = "\nMORE = 1\n" if path.name == "conduct.py" else ""
        return read(path, *arguments, **options) + more

    monkeypatch.setattr(Path, "read_text", changed)
    assert numbers_hash([experiment]) != first


def test_the_hash_does_not_know_where_it_is(tmp_path: Path) -> None:
    write(tmp_path, {"here/one.py": "x = 1\n", "there/one.py": "x = 1\n"})
    assert source_hash([tmp_path / "here/one.py"]) == source_hash([tmp_path / "there/one.py"])


def test_files_alone_count_without_what_they_import(tmp_path: Path) -> None:
    write(tmp_path, {"one.py": "x = 1\n", "two.py": "import one\n", "style.txt": "a\n"})

    def now() -> str:
        alone = [tmp_path / "two.py", tmp_path / "style.txt"]
        return source_hash([], alone=alone)

    first = now()
    (tmp_path / "one.py").write_text("x = 2\n")
    (tmp_path / "two.py").write_text("# said\nimport one\n")
    assert now() == first
    (tmp_path / "style.txt").write_text("b\n")
    assert now() != first


def test_the_lab_counts_and_its_progress_does_not() -> None:
    root = checkout() / "src" / "circuitax"
    files = source_files(root / "lab" / "lab.py", {"circuitax": root}, NO_NUMBERS)
    assert root / "training" / "checkpoints.py" in files
    assert not {"progress.py", "claims.py", "measured.py", "drawing.py"} & {p.name for p in files}
