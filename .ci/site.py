"""Hooks of MkDocs: what the site needs beyond the pages of docs/.

The pages link to files of the repository, as GitHub shows them. On the site the project's own pages (CHANGELOG.md and
its like) are pages too; any other file is named, not linked, because the site does not contain it. The order of the
pages is that of the tables in docs/README.md, so that no list is kept twice.

A page with a diagram loads Mermaid from the site itself, where requirements/mermaid has fetched it. Otherwise the theme
loads it from a public server.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PROJECT = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)]*)?\)")
MERMAID = sorted(Path(sys.prefix, "share", "penstock-docs").glob("mermaid-*.min.js"))
CELL = re.compile(r"<td[ >].*?</td>", re.DOTALL)
NAME = re.compile(r"(?<![\w./=&#\"-])[\w./=,:-]{20,}(?![^<]*>)")  # a long name in a text, not in a tag
PART = re.compile(r"(?<=\w)([._/=,:])(?=\w)")
SECTIONS = {"Tutorials": "tutorials", "How-to guides": "how-to", "Reference": "reference", "Explanation": "explanation"}


def on_config(config: Any) -> Any:
    found = re.search(r'__version__ = "(.+)"', (ROOT / "src" / "penstock" / "__init__.py").read_text("utf-8"))
    assert found is not None
    config.site_name = f"Penstock {found.group(1)}"
    config.site_dir = str(ROOT / "build" / "site" / found.group(1))
    config.extra_css = ["assets/site.css"]
    config.nav = navigation((ROOT / "docs" / "README.md").read_text("utf-8"))
    return config


def navigation(index: str) -> list[dict[str, Any]]:
    """The sections of the index with their pages, in its order; pages in deeper folders follow their section's own."""
    nav: list[dict[str, Any]] = [{"Home": "README.md"}]
    for title, folder in SECTIONS.items():
        part = index.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
        pages: list[Any] = [{text: target} for _, text, target, _ in LINK.findall(part) if target.startswith(folder)]
        listed = {next(iter(page.values())) for page in pages}
        for below in sorted(path for path in (ROOT / "docs" / folder).iterdir() if path.is_dir()):
            files = [f"{folder}/{below.name}/{page.name}" for page in sorted(below.glob("*.md"))]
            pages.append({below.name.capitalize(): [file for file in files if file not in listed]})
        if pages:
            nav.append({title: pages})
    nav.append({"Project": [{name.removesuffix(".md").replace("_", " ").capitalize(): at(name)} for name in PROJECT]})
    return nav


def at(name: str) -> str:
    return f"project/{'overview' if name == 'README.md' else name.removesuffix('.md').lower()}.md"


def on_files(files: Files, config: Any) -> Files:
    for name in PROJECT:
        files.append(File.generated(config, at(name), abs_src_path=str(ROOT / name)))
    files.append(File.generated(config, "assets/site.css", abs_src_path=str(ROOT / ".ci" / "site.css")))
    for script in MERMAID[-1:]:
        files.append(File.generated(config, f"assets/{script.name}", abs_src_path=str(script)))
    return files


def on_post_page(output: str, page: Any, **_: Any) -> str:
    output = CELL.sub(lambda cell: NAME.sub(lambda name: PART.sub(r"\1<wbr>", name[0]), cell[0]), output)
    if not MERMAID or 'class="mermaid"' not in output:
        return output
    address = posixpath.relpath(f"assets/{MERMAID[-1].name}", page.url or ".")
    return output.replace("</head>", f'<script src="{address}"></script></head>', 1)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    source = Path(page.file.abs_src_path).relative_to(ROOT).as_posix()
    here = posixpath.dirname(page.file.src_uri) or "."

    def link(match: re.Match[str]) -> str:
        bang, text, target, anchor = match.groups()
        if re.match(r"[a-z]+:", target):
            return match.group(0)
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if path in PROJECT:
            return f"[{text}]({posixpath.relpath(at(path), here)}{anchor or ''})"
        if path.startswith("docs/") and (ROOT / path).is_dir():
            path += "/README.md"
        if path.startswith("docs/"):
            return f"{bang}[{text}]({posixpath.relpath(path.removeprefix('docs/'), here)}{anchor or ''})"
        return f"{text} (`{path}` in the repository)" if text.strip("`/") != path.strip("/") else f"`{path}`"

    return LINK.sub(link, markdown)
