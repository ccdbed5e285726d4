"""What the site has beyond docs/: the results with their figures, and the notebooks as pages."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "CLAIMS.md", "benchmarks.md")


def on_files(files: Files, config: Any) -> Files:
    """Add pages and pictures that are not below docs/; leave out the notebooks' sources."""
    results = ROOT / "results"
    found = [results / name for name in PAGES if (results / name).is_file()]
    found += sorted(results.glob("*/accepted/figures/*.p[nd][gf]"))
    for path in found:
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    for file in list(files):
        if file.src_uri.startswith("notebooks/") and file.src_uri.endswith(".py"):
            files.remove(file)
            text = Path(str(file.abs_src_path)).read_text(encoding="utf-8")
            name = file.src_uri.removesuffix(".py") + ".md"
            files.append(File.generated(config, name, content=as_markdown(text)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to results lead to the pages added; links of those to other files become plain text."""
    here = page.file.src_uri
    if here.startswith("results/"):
        markdown = markdown.replace("](../docs/", "](../")
        kept = r"https?://|#|[^)]*\.(?:md|png|pdf)(?:#[^)]*)?\)"
        return re.sub(rf"(?<!!)\[([^\]]*)\]\((?!{kept})[^)]*\)", r"\1", markdown)
    up = "../" * here.count("/")
    return markdown.replace(f"]({up}../results/", f"]({up}results/")


def as_markdown(script: str) -> str:
    """A script in the percent format as a page: comments as text, code in fences."""
    parts = []
    for cell in re.split(r"^# %%", script, flags=re.MULTILINE)[1:]:
        head, _, body = cell.partition("\n")
        if "[markdown]" in head:
            parts.append(re.sub(r"^# ?", "", body, flags=re.MULTILINE).strip())
        else:
            parts.append(f"```python\n{body.strip()}\n```")
    return "\n\n".join(parts) + "\n"
