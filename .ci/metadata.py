"""Hook of hatchling: the README and the addresses that the package index shows.

In the repository the README's links are relative, which leads nowhere on the page of a package index. The forge that
builds a release says where the repository is, in the environment of its jobs (GITHUB_SERVER_URL, GITHUB_REPOSITORY);
with that the links and the picture are those of the tag, and the project's addresses are set. A build elsewhere does
not know the repository: then links keep their text only, and the picture is left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:)([^)\s]+)\)")


class CustomMetadataHook(MetadataHookInterface):
    def update(self, metadata: dict[str, object]) -> None:
        root = Path(self.root)
        version = re.search(
            r'^__version__ = "(.+)"$', (root / "src/penstock/__init__.py").read_text("utf-8"), re.MULTILINE
        )
        assert version is not None
        repository = repository_of(os.environ)
        readme = (root / "README.md").read_text("utf-8")
        text = readme_for_index(readme, repository, f"v{version[1]}")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        if repository is not None:
            metadata["urls"] = {
                "Source": repository,
                "Documentation": f"{repository}/blob/v{version[1]}/docs/README.md",
                "Changelog": f"{repository}/blob/v{version[1]}/CHANGELOG.md",
                "Issues": f"{repository}/issues",
            }


def repository_of(environment: Mapping[str, str]) -> str | None:
    """The address of the repository, if a job of a forge builds the package."""
    server, name = environment.get("GITHUB_SERVER_URL"), environment.get("GITHUB_REPOSITORY")
    return f"{server}/{name}" if server and name else None


def readme_for_index(readme: str, repository: str | None, tag: str) -> str:
    """The README with links that lead somewhere from any page."""

    def link(match: re.Match[str]) -> str:
        bang, text, target = match.groups()
        if repository is None:
            return "" if bang else text
        return f"{bang}[{text}]({repository}/{'raw' if bang else 'blob'}/{tag}/{target})"

    return re.sub(r"\n{3,}", "\n\n", _LINK.sub(link, readme))
