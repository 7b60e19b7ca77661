"""MkDocs' hooks: pages of the repository outside docs/ are pages of the site, too.

Links are written for readers of the repository. Where one leads out of docs/, or back into it, it
is rewritten to the page's place in the site. MkDocs checks what this leaves (`mkdocs.yml`,
``validation``): a link to anything else is a warning, which ends a strict build.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parent.parent
PAGES: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/README.md": "examples/index.md",
    "examples/cluster/README.md": "examples/cluster.md",
    "examples/pipelines/README.md": "examples/pipelines.md",
}
"""Pages outside docs/, by their place in the repository: their place in the site."""

_SOURCES: Final = {place: page for page, place in PAGES.items()}
_TWICE: Final = re.compile(r"^(tailrace (\w+)) \2 ", re.MULTILINE)
"""Cyclopts puts a command's name before a usage that has it already."""
_LINK: Final = re.compile(r"\]\((?!\w+:)([^()#\s]+)(#[^()\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside docs/."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - the group `docs` is for the site alone

    for page, place in PAGES.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / page)))
    return files


def on_page_markdown(markdown: str, page: Page, **_given: Any) -> str:
    """Rewrite the page's links for the site."""
    place = page.file.src_uri
    folder = posixpath.dirname(_SOURCES.get(place, f"docs/{place}"))

    def rewritten(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[1]))
        if (ROOT / target).is_dir():
            target += "/README.md"
        if target not in PAGES and not target.startswith("docs/"):
            return link[0]
        wanted = PAGES.get(target, target.removeprefix("docs/"))
        return f"]({posixpath.relpath(wanted, posixpath.dirname(place) or '.')}{link[2] or ''})"

    return _LINK.sub(rewritten, _TWICE.sub(r"\1 ", markdown))
