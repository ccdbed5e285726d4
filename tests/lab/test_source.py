"""The hash follows every file that is imported, and nothing else."""

from pathlib import Path

from circuitax.lab.source import source_files, source_hash


def tree(root: Path) -> dict[str, Path]:
    package = root / "pack"
    (package / "sub").mkdir(parents=True)
    texts = {
        "start.py": "import json\nimport pack.a\nfrom pack.sub import b\n",
        "pack/__init__.py": "",
        "pack/a.py": "def late():\n    from pack.c import thing\n",
        "pack/c.py": "thing = 1\n",
        "pack/d.py": "unused = 1\n",
        "pack/sub/__init__.py": "",
        "pack/sub/b.py": "import pack.a\n",
    }
    for name, text in texts.items():
        (root / name).write_text(text)
    return {"pack": package}


def test_imports_are_followed(tmp_path: Path) -> None:
    roots = tree(tmp_path)
    names = {p.relative_to(tmp_path).as_posix() for p in source_files(tmp_path / "start.py", roots)}
    assert names == {"start.py", "pack/a.py", "pack/c.py", "pack/sub/__init__.py", "pack/sub/b.py"}


def test_hash_changes_with_what_is_used(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    (folder / "experiment.py").write_text("from one.two import x\n")
    (folder / "two.py").write_text("x = 1\n")
    (folder / "three.py").write_text("x = 1\n")
    constraints = tmp_path / "constraints.txt"

    def now() -> str:
        return source_hash([folder / "experiment.py"], [constraints], ("circuitax",))

    first = now()
    (folder / "three.py").write_text("x = 2\n")
    assert now() == first
    (folder / "two.py").write_text("x = 2\n")
    second = now()
    assert second != first
    constraints.write_text("jax==1\n")
    assert now() not in {first, second}


def test_hash_does_not_know_where_it_is(tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.py").write_text("x = 1\n")
    hashes = {source_hash([tmp_path / n / "one.py"], [], ()) for n in ("here", "there")}
    assert len(hashes) == 1


def test_the_lab_is_part_of_an_experiment() -> None:
    from circuitax.config.catalogue import checkout

    root = checkout() / "src" / "circuitax"
    files = source_files(root / "lab" / "lab.py", {"circuitax": root})
    assert root / "training" / "checkpoints.py" in files
    assert root / "records" / "claims_page.py" not in files
