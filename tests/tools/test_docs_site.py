"""The site of the documentation: no dead link, no request to another host, a map for language models."""

import re
import shutil
from pathlib import Path

import pytest

from tools import docs_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("docs")
    assert docs_site.build(work) == 0
    return work / "site"


def test_every_page_of_the_docs_is_in_the_navigation() -> None:
    index = (docs_site.DOCS / "index.md").read_text(encoding="utf-8")
    navigation = repr(docs_site.navigation(docs_site.sections(index), docs_site.DOCS))
    pages = {page.relative_to(docs_site.DOCS).as_posix() for page in docs_site.DOCS.rglob("*.md")}
    assert {page for page in pages if repr(page) not in navigation} == {"vectors/README.md"}


def test_a_page_asks_no_other_host_for_anything(site: Path) -> None:
    loaded = re.compile(r'src(?:set)?="[^"]+"|<link [^>]*rel="(?:stylesheet|preconnect|preload)"[^>]*>|url\([^)]+\)')
    for page in site.rglob("*.html"):
        for match in loaded.finditer(page.read_text(encoding="utf-8")):
            assert "//" not in match[0].replace("data:", ""), f"{page.name}: {match[0]}"


def test_every_image_is_part_of_the_site(site: Path) -> None:
    images = 0
    for page in site.rglob("*.html"):
        for source in re.findall(r'<img [^>]*src="([^"]+)"', page.read_text(encoding="utf-8")):
            assert (page.parent / source).is_file(), f"{page.name}: {source}"
            images += 1
    assert images


def test_the_map_for_language_models_leads_to_pages_as_markdown(site: Path) -> None:
    targets = re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text(encoding="utf-8"))
    assert "suites.md" in targets
    assert all((site / target).is_file() for target in targets)


def test_a_dead_link_fails_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = tmp_path / "docs"
    shutil.copytree(docs_site.DOCS, docs)
    (docs / "viewer.md").write_text("# Viewer\n\n[nowhere](nowhere.md)\n", encoding="utf-8")
    monkeypatch.setattr(docs_site, "DOCS", docs)
    assert docs_site.build(tmp_path / "work") != 0


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("metrics.md", "](../SECURITY.md#box)", "](https://forge/SECURITY.md#box)"),
        ("dev/house.md", "](../../CONTRIBUTING.md)", "](https://forge/CONTRIBUTING.md)"),
        ("dev/house.md", "](../glossary.md)", "](../glossary.md)"),
    ],
)
def test_links_that_leave_docs_lead_to_the_forge(page: str, link: str, expected: str) -> None:
    assert docs_site.for_the_site(f"[x{link}", page, "https://forge") == f"[x{expected}"
