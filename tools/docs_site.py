"""Builds the documentation site: ``python -m tools.docs_site`` writes it to ``build/docs/site``.

``docs/`` stays plain Markdown, as it reads on the forge. ``docs/index.md`` holds the one order of its pages: the site's
navigation and ``llms.txt`` (https://llmstxt.org) follow it. Zensical makes the pages and stops at a dead link.
"""

import json
import posixpath
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

_SECTION = re.compile(r"## (.+)")
_ENTRY = re.compile(r"(?:-|\d+\.) +\[([^\]]+)\]\(([^)#\s]+)\)(?:: *(.+)|\.)?")
_LEAVES_DOCS = re.compile(r"\]\(((?:\.\./)+[^)\s#]+)(#[^)\s]*)?\)")

# `font = false` and the theme's own scripts: a page asks no other host for anything.
_SETTINGS = """\
[project]
site_name = "gage-eval"
site_description = "Evaluate language and multimodal models as a cached, resumable Prefect workflow"
docs_dir = "pages"
site_dir = "site"
use_directory_urls = false
nav = {nav}

[project.theme]
font = false
features = ["content.code.copy", "navigation.sections", "navigation.top", "search.highlight"]
palette = [
  {{ media = "(prefers-color-scheme: light)", scheme = "default" }},
  {{ media = "(prefers-color-scheme: dark)", scheme = "slate" }},
]

[project.markdown_extensions]
admonition = {{}}
attr_list = {{}}
tables = {{}}
pymdownx.superfences = {{}}
toc.permalink = true
"""


@dataclass(frozen=True)
class Entry:
    """A line of the index: the page's title, its path below ``docs/`` (or outside of it), and what it is about."""

    title: str
    path: str
    about: str


@dataclass
class Section:
    """A heading of the index and the pages below it."""

    title: str
    entries: list[Entry] = field(default_factory=list)


def sections(index: str) -> list[Section]:
    """The sections of ``docs/index.md`` that list pages, in order.

    Args:
        index: the text of the page.
    """
    listed: list[Section] = []
    for line in re.sub(r"\n {2,}", " ", index).splitlines():
        if heading := _SECTION.fullmatch(line):
            listed.append(Section(heading[1]))
        elif listed and (entry := _ENTRY.fullmatch(line)):
            listed[-1].entries.append(Entry(entry[1], entry[2], entry[3] or ""))
    return [section for section in listed if section.entries]


def navigation(listed: list[Section], docs: Path) -> list[dict[str, object]]:
    """The site's navigation: the pages of each section; the index of a folder brings the folder's other pages along."""
    tree: list[dict[str, object]] = [{"Overview": "index.md"}]
    for section in listed:
        pages: list[object] = []
        for entry in section.entries:
            if entry.path.startswith("../") or not entry.path.endswith(".md"):
                continue
            pages.append({entry.title: entry.path})
            if posixpath.basename(entry.path) == "index.md":
                others = {*(docs / entry.path).parent.glob("*.md")} - {docs / entry.path}
                pages += sorted(page.relative_to(docs).as_posix() for page in others)
        tree.append({section.title: pages})
    return tree


def llms_txt(index: str) -> str:
    """The map of the documentation for language models: title, summary, then each page with what it is about."""
    title, summary = index.split("\n\n")[:2]
    lines = [title, "", f"> {' '.join(summary.split())}"]
    for section in sections(index):
        lines += ["", f"## {section.title}", ""]
        for entry in section.entries:
            if not entry.path.startswith("../"):
                lines.append(f"- [{entry.title}]({entry.path})" + (f": {entry.about}" if entry.about else ""))
    return "\n".join(lines) + "\n"


def for_the_site(text: str, page: str, forge: str) -> str:
    """A page's text with its links that leave ``docs/`` leading to the forge, since the site does not hold those files.

    Args:
        text: the page as Markdown.
        page: its path below ``docs/``.
        forge: the address of the repository's files.
    """

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), match[1]))
        if target.startswith("docs/"):
            return match[0]
        return f"]({forge}/{target}{match[2] or ''})"

    return _LEAVES_DOCS.sub(link, text)


def build(work: Path) -> int:
    """Writes the site to ``site`` in a folder, each page as HTML and as Markdown.

    Returns:
        Zensical's exit status, which is not 0 where a link is dead.

    Args:
        work: the folder, which is emptied first.
    """
    shutil.rmtree(work, ignore_errors=True)
    pages = work / "pages"
    shutil.copytree(DOCS, pages)
    with (ROOT / "pyproject.toml").open("rb") as file:
        forge = tomllib.load(file)["project"]["urls"]["Documentation"].removesuffix("/docs")
    for page in pages.rglob("*.md"):
        name = page.relative_to(pages).as_posix()
        page.write_text(for_the_site(page.read_text(encoding="utf-8"), name, forge), encoding="utf-8")
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    (pages / "llms.txt").write_text(llms_txt(index), encoding="utf-8")
    nav = json.dumps(navigation(sections(index), DOCS), ensure_ascii=False).replace('": ', '" = ')
    (work / "zensical.toml").write_text(_SETTINGS.format(nav=nav), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    status = subprocess.run(command, cwd=work, check=False).returncode  # noqa: S603 - the arguments are ours
    if status == 0:  # llms.txt leads to the pages as Markdown
        shutil.copytree(pages, work / "site", dirs_exist_ok=True)
    return status


if __name__ == "__main__":
    sys.exit(build(ROOT / "build" / "docs"))
