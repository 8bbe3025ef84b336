"""Runs as static pages: every link leads to a page of the folder, and no name of a run or model acts on a page."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gage_eval.base.errors import InputError
from gage_eval.regression.matrix import Cell
from gage_eval.regression.site import run_cells_of, title_of, write_site
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.options import Locations
from gage_eval.runs.results.export import LocalTarget
from gage_eval.runs.results.reading import RunReader
from tests.support.workspace import write_config, write_rows

HOSTILE = 'm"><script>alert(1)</script>'


class Page(HTMLParser):
    """The links and the tags of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.names.add(tag)
        self.ids |= {values.get("id") or ""}
        self.links += [link for name in ("href", "src") if (link := values.get(name))]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[RunReader]:
    """Two runs of one config with different answers, and one with another prompt."""
    folder = tmp_path_factory.mktemp("site")
    write_rows(folder, 40)
    readers = []
    for name, answer, prompt in (("a", "2", None), ("b", "3", None), ("c", "2", "{{ sample.id }}")):
        changes = {"prompts": [{"prompt_id": "p", "template": prompt}]} if prompt else {}
        adapter = {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model"}
        if prompt:
            changes["role_adapters"] = [{**adapter, "prompt_id": "p"}]
        backend = {"backend_id": "model", "type": "dummy", "config": {"answer": answer, "model": HOSTILE}}
        file = write_config(folder, f"{name}.yaml", backends=[backend], **changes)
        run_inline(RunOptions(config=str(file), store=str(folder / "store"), run_id=name))
        readers.append(RunReader.open(Locations.at(str(folder / "store")), name))
    return readers


def check_links(folder: Path) -> None:
    pages = {file.name: Page(file.read_text(encoding="utf-8")) for file in folder.glob("*.html")}
    for name, page in pages.items():
        assert "script" not in page.names
        for link in page.links:
            parts = urlsplit(link)
            assert not parts.scheme
            assert not parts.netloc
            assert not parts.path or (folder / parts.path).is_file(), f"{name}: {link}"
            if parts.fragment:
                assert parts.fragment in pages[parts.path or name].ids, f"{name}: {link}"


def test_one_run_is_its_report(runs: list[RunReader], tmp_path: Path) -> None:
    assert write_site("t", run_cells_of(runs[:1]), LocalTarget(tmp_path)) == "index.html"
    assert [file.name for file in tmp_path.iterdir()] == ["index.html"]
    check_links(tmp_path)


def test_several_runs_are_a_matrix_that_links_to_reports_with_the_comparison(
    runs: list[RunReader], tmp_path: Path
) -> None:
    write_site(title_of(runs), run_cells_of(runs), LocalTarget(tmp_path))
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {"index.html", "matrix.csv", "run-a.html", "run-b.html", "run-c.html"}
    check_links(tmp_path)
    index = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert 'href="run-b.html#against"' in index
    assert 'href="run-c.html#against"' not in index, "what measures something else is not compared"
    assert "not comparable" in re.sub(r"\s+", " ", index)
    assert "<svg" in index
    assert ", b" in index, "two runs of one model are told apart"


def test_a_failed_cell_is_in_the_table_and_without_any_run_there_are_no_pages(
    runs: list[RunReader], tmp_path: Path
) -> None:
    failed = Cell("small", "lost", error="no")
    with pytest.raises(InputError, match="no run"):
        write_site("t", [failed], LocalTarget(tmp_path))
    write_site("t", [Cell("small", "there", runs[0]), failed], LocalTarget(tmp_path))
    assert ">failed</td>" in (tmp_path / "index.html").read_text(encoding="utf-8")
    check_links(tmp_path)
