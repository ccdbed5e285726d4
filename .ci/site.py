"""What the site has beyond docs/: results with figures, notebooks run as pages, public names."""

import ast
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
PAGES = ("*.md", "claims/*.md", "gallery/*.md")
STYLE, WORKER = "site.css", "iframe-worker.js"
# Pages with tables that need the room of the list of headings.
WIDE = ("results/CLAIMS.md", "results/claims/", "results/benchmarks.md", "coverage.md")


def on_files(files: Files, config: Any) -> Files:
    """Add pages and pictures that are not below docs/; leave out the notebooks' sources."""
    results = ROOT / "results"
    found = [path for names in PAGES for path in sorted(results.glob(names))]
    found += sorted(results.glob("*/accepted/figures/*.p[nd][gf]"))
    for path in found:
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    for file in list(files):
        if file.src_uri.startswith("notebooks/") and file.src_uri.endswith(".py"):
            files.remove(file)
            for name, content in run_notebook(Path(str(file.abs_src_path))):
                files.append(File.generated(config, f"notebooks/{name}", content=content))
    face = (ROOT / "src/circuitax/__init__.py").read_text(encoding="utf-8")
    files.append(File.generated(config, "api.md", content=api_page(face)))
    for name in (STYLE, WORKER):
        beside = Path(__file__).with_name(name)
        files.append(File.generated(config, name, abs_src_path=str(beside)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to results lead to the pages added; links of those to other files become plain text."""
    here = page.file.src_uri
    up = "../" * here.count("/")
    if here.startswith(WIDE):
        page.meta["hide"] = ["toc"]
    if here.startswith("results/"):
        markdown = markdown.replace(f"]({up}docs/", f"]({up}")
        markdown = re.sub(r" · \[(?:run|code)\]\([^)]*\)", "", markdown)
        # Python-Markdown leaves what is in a fold as it is, unless the fold says otherwise.
        markdown = re.sub("^<details>", '<details markdown="1">', markdown, flags=re.MULTILINE)
        kept = r"https?://|#|[^)]*\.(?:md|png|pdf)(?:#[^)]*)?\)"
        return re.sub(rf"(?<!!)\[([^\]]*)\]\((?!{kept})[^)]*\)", r"\1", markdown)
    return markdown.replace(f"]({up}../results/", f"]({up}results/")


def run_notebook(source: Path) -> list[tuple[str, bytes]]:
    """The page of a notebook and its pictures, by name; it runs in a process of its own."""
    program = Path(__file__).with_name("notebook_page.py")
    with tempfile.TemporaryDirectory() as folder:
        # -P: the folder of the program holds a site.py, which is not Python's.
        command = [sys.executable, "-P", str(program), str(source), folder]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PluginError(f"{source.name} does not run: {done.stderr[-2000:]}")
        return [(path.name, path.read_bytes()) for path in sorted(Path(folder).iterdir())]


def api_page(face: str) -> str:
    """The public names, in the groups of the package's docstring, as mkdocstrings shows them.

    Args:
        face: Source of the package's root.
    """
    tree = ast.parse(face)
    (places,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_PLACES"
    )
    parts = ["# API", "What `import circuitax as cx` gives. Shapes stand in the signatures."]
    for group in (ast.get_docstring(tree) or "").split("\n\n"):
        title, *lines = group.splitlines()
        entries = (re.match(r"    (\w+)(?:\(|$)", line) for line in lines)
        names = [entry[1] for entry in entries if entry and entry[1] in places]
        if names and re.fullmatch(r"[A-Z][\w ]*", title):
            parts += [f"## {title}", *(_directive(name, places[name]) for name in names)]
    return "\n\n".join(parts) + "\n"


def _directive(name: str, place: str) -> str:
    module, _, other = place.partition(":")
    options = f"      heading: cx.{name}\n      toc_label: {name}"
    return f"::: {module}.{other or name}\n    options:\n{options}"
