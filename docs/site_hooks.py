"""What the site has beside docs/: the README and its like from above, and an API reference out of the docstrings."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import multipartite

ROOT = Path(__file__).parent.parent
ABOVE = {"README.md": "index.md", "CHANGELOG.md": "CHANGELOG.md", "results/README.md": "results.md"}
MODELS = ["labels", "pooling.convert", "pooling.fitting", "pooling.registry", "integrations.lightning"]
API = {  # page: modules
    "layers": [home for home in multipartite._HOMES if home.startswith("pooling.") and home not in MODELS],
    "models": MODELS,
    "ranking": ["estimators", "ranking"],
    "comparison": ["experiments.compare", "experiments.grid.comparison", "experiments.run.config", "experiments.data"],
    "mathematics": ["statistics", "criteria", "projection", "instance_ranking", "functional"],
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add pages that are written nowhere below docs/."""
    for source, target in ABOVE.items():
        files.append(File.generated(config, target, content=_as_seen_from_docs((ROOT / source).read_text())))
    for page, modules in API.items():
        shown = "\n\n".join(f"::: multipartite.{module}" for module in modules)
        files.append(File.generated(config, f"api/{page}.md", content=f"# {page.capitalize()}\n\n{shown}\n"))
    return files


def on_page_content(html: str, **_: object) -> str:
    """Show what docstrings write for Sphinx: roles as their names, formulas as they stand."""
    html = re.sub(r":(?:func|class|mod|meth|attr):\s*(?=<code>)", "", html)
    return re.sub(r"<p>\.\. math:: (.*?)</p>", r"<pre>\1</pre>", html, flags=re.DOTALL)


def _as_seen_from_docs(text: str) -> str:
    """Turn links to files of the repository into links of the site, and those to what it does not show into words."""

    def turned(match: re.Match[str]) -> str:
        words, target = match.groups()
        path, _, anchor = target.partition("#")
        path = ABOVE.get(path, path).removeprefix("../").removeprefix("docs/")
        known = path in ABOVE.values() or (ROOT / "docs" / path).exists()
        return f"[{words}]({path}{'#' if anchor else ''}{anchor})" if known else words

    return re.sub(r"\[([^\]]+)\]\((?!http|#)([^)\s]+)\)", turned, text)
