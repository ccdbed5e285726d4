"""What the site has beyond docs/: results with figures, notebooks as pages, public names."""

import ast
import base64
import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
PAGES = ("*.md", "claims/*.md", "gallery/*.md")
LANDING = "index.html"
STYLE, WORKER = "site.css", "iframe-worker.js"
# Pages with tables that need the room of the list of headings.
WIDE = ("results/CLAIMS.md", "results/claims/", "results/benchmarks.md", "coverage.md")


def on_files(files: Files, config: Any) -> Files:
    """Add pages and pictures that are not below docs/ as they are."""
    results = ROOT / "results"
    found = [path for names in PAGES for path in sorted(results.glob(names))]
    found += sorted(results.glob("*/accepted/figures/*.p[nd][gf]"))
    for path in found:
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    for file in list(files):
        if file.src_uri.startswith("notebooks/") and file.src_uri.endswith(".ipynb"):
            for name, content in notebook_page(Path(str(file.abs_src_path))):
                files.append(File.generated(config, f"notebooks/{name}", content=content))
        if file.src_uri == LANDING:
            files.remove(file)
            page = Path(str(file.abs_src_path)).read_text(encoding="utf-8")
            files.append(File.generated(config, LANDING, content=linked(page)))
    api = api_page(ROOT / "src/circuitax")
    files.append(File.generated(config, "api.md", content=api))
    for name in (STYLE, WORKER):
        beside = Path(__file__).with_name(name)
        files.append(File.generated(config, name, abs_src_path=str(beside)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to results lead to the pages added; links of those to other files become plain text."""
    here = page.file.src_uri
    up = "../" * here.count("/")
    # Python-Markdown leaves what is in a fold as it is, unless the fold says otherwise.
    markdown = re.sub("^<details>", '<details markdown="1">', markdown, flags=re.MULTILINE)
    if here.startswith(WIDE):
        page.meta["hide"] = ["toc"]
    if here.startswith("results/"):
        markdown = markdown.replace(f"]({up}docs/", f"]({up}")
        markdown = re.sub(r" · \[(?:run|code)\]\([^)]*\)", "", markdown)
        kept = r"https?://|#|[^)]*\.(?:md|png|pdf)(?:#[^)]*)?\)"
        return re.sub(rf"(?<!!)\[([^\]]*)\]\((?!{kept})[^)]*\)", r"\1", markdown)
    markdown = markdown.replace(".ipynb)", ".md)")
    markdown = re.sub(r"\[([^\]]*)\]\((?:\.\./)+src/[^)]*\)", r"\1", markdown)
    return markdown.replace(f"]({up}../results/", f"]({up}results/")


def on_page_content(html: str, **_: Any) -> str:
    """Formulas as MathML, which browsers draw by themselves."""

    def drawn(found: re.Match[str]) -> str:
        kind = "inline" if found[2] == "span" else "block"
        return f"{found[1]}{convert(unescape(found[3]).strip(), display=kind)}</{found[2]}>"

    marked = r'(<(span|div) class="arithmatex">)\\[(\[](.*?)\\[)\]]</\2>'
    return re.sub(marked, drawn, html, flags=re.DOTALL)


def linked(page: str) -> str:
    """The landing page as it stands in the site, where README is the index of its folder."""
    page = re.sub(r'href="(?:\.\./)?([^":]*)\.(?:md|ipynb)"', r'href="\1.html"', page)
    return page.replace('README.html"', 'index.html"')


def notebook_page(source: Path) -> Iterator[tuple[str, bytes]]:
    """The page of a notebook with its outputs, and its pictures, by name; nothing is run.

    The alternative text of a picture is what its cell says with ``set_label``.
    """
    parts: list[str] = []
    pictures: list[str] = []
    for cell in json.loads(source.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        for output in cell["outputs"]:
            if "text" in output:
                parts.append("```text\n" + "".join(output["text"]).rstrip() + "\n```")
            elif picture := output.get("data", {}).get("image/png"):
                pictures.append(f"{source.stem}-{len(pictures) + 1}.png")
                parts.append(f"![{label(text)}]({pictures[-1]})")
                yield pictures[-1], base64.b64decode(picture)
    yield f"{source.stem}.md", ("\n\n".join(parts) + "\n").encode()


def label(code: str) -> str:
    """What ``set_label`` of a cell is given."""
    calls = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call))
    found = [c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr == "set_label"]
    return str(ast.literal_eval(found[-1].args[0]))


def api_page(package: Path) -> str:
    """The public names, in the groups of the package's docstring, as mkdocstrings shows them.

    Args:
        package: Folder of the library, whose stub says where each name is.
    """
    stub = ast.parse((package / "__init__.pyi").read_text(encoding="utf-8"))
    imports = (node for node in stub.body if isinstance(node, ast.ImportFrom) and node.module)
    places = {a.asname or a.name: f"{n.module}.{a.name}" for n in imports for a in n.names}
    face = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    parts = ["# Functions", "What `import circuitax as cx` gives. Shapes stand in the signatures."]
    for group in (ast.get_docstring(face) or "").split("\n\n"):
        title, *lines = group.splitlines()
        entries = (re.match(r"    (\w+)(?:\(|$)", line) for line in lines)
        names = [entry[1] for entry in entries if entry and entry[1] in places]
        if names and re.fullmatch(r"[A-Z][^:]*", title):
            parts += [f"## {title}", *(_directive(name, places[name]) for name in names)]
    return "\n\n".join(parts) + "\n"


def _directive(name: str, place: str) -> str:
    options = f"      heading: cx.{name}\n      toc_label: {name}"
    return f"::: circuitax.{place}\n    options:\n{options}"
