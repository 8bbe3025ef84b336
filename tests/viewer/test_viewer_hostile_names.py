"""Names of models, suites, slices and samples are texts on every page, in addresses and in files for people."""

import csv
import re
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree

import orjson
import pytest
from starlette.testclient import TestClient

from tests.support.runs import gage
from tests.viewer.viewer_client import page, run, viewer

NAMES = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{ 7191*7 }}</title></style>",
    "two\nlines\tand\ttabs",
    "turned \u202earound\u2066\u200b",
    "../../../etc/passwd",
    "a%2fb%00?c=d&e=f#g;h",
    "名前 \U0001f389 e\u0301",
    "long " + "w" * 3_000,
    "term:=<>\\\"'-",
)
ROWS = 24
RUNS = ("first", "second")


class Page(HTMLParser):
    """The tags, attributes and links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value for name, value in attrs if name == "href" and value]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs in which everything that has a free name has a hostile one."""
    folder = tmp_path_factory.mktemp("names")
    for at, name in enumerate(RUNS):
        rows = [
            {
                "id": f"{NAMES[i % len(NAMES)]} {i}",
                "question": NAMES[i % len(NAMES)],
                "answer": str(i % 2),
                "data_tag": {key: NAMES[i % len(NAMES)] for key in NAMES},
                "metadata": {"topic": NAMES[i % len(NAMES)]},
            }
            for i in range(ROWS)
        ]
        (folder / "rows.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
        run(
            folder,
            name,
            metadata={"name": " ".join(NAMES)},
            backends=[
                {"backend_id": "model", "type": "dummy", "config": {"answer": str(at), "model": " ".join(NAMES)}}
            ],
            tasks=[{"task_id": "sums", "dataset_id": "sums", "adapter_id": "dut", "description": " ".join(NAMES)}],
            metrics=[{"metric_id": "exact_match", "slices": ["metadata.topic"]}, {"metric_id": "contains"}],
        )
    return folder


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    with viewer(folder) as client:
        yield client


def checked(text: str) -> Page:
    """A page on which no name acts."""
    shown = Page(text)
    assert shown.tags.isdisjoint({"img", "iframe", "object", "embed"})
    assert not [name for name in shown.attributes if name.startswith("on") or name == "style"]
    assert "<script>alert" not in text
    assert "50337" not in "".join(shown.words), "a template ran in a name"
    assert [link for link in shown.links if urlsplit(link).scheme or urlsplit(link).netloc] == []
    return shown


def test_every_link_of_every_page_leads_to_a_page(client: TestClient) -> None:
    """From the list of runs on, two clicks deep, and what each page shows of a sample is the sample of the link."""
    seen: set[str] = set()
    left = ["/", "/runs/first", "/runs/second?against=first", "/matrix?runs=first,second", "/matrix/plots?runs=first"]
    samples = 0
    while left and len(seen) < 60:
        address = left.pop(0)
        seen.add(address)
        if "/export" in address or "/static" in address:
            assert client.get(address).status_code == 200
            continue
        shown = checked(page(client, address))
        samples += "/sample?" in address
        links = [link for link in shown.links if link.startswith("/") and link not in seen and link not in left]
        left += links[:12]
    assert samples


def test_a_slice_of_any_name_leads_to_its_samples(client: TestClient) -> None:
    slices = [link for link in Page(page(client, "/runs/first")).links if "&q=" in link and "status" not in link]
    assert slices
    for link in slices:
        assert re.search(r'<a data-row href="', page(client, link)), link


@pytest.mark.parametrize("name", NAMES)
def test_a_name_in_an_address_is_answered_in_words(client: TestClient, name: str) -> None:
    raw = quote(name, safe="")
    for address in (
        f"/?q={raw}",
        f"/runs/{raw}",
        f"/runs/{raw}/samples",
        f"/runs/first/samples?task={raw}",
        f"/runs/first/samples?q={raw}&sort={raw}&cols={raw}&page={raw}",
        f"/runs/first/samples?metric={raw}",
        f"/runs/first/samples?where={raw}",
        f"/runs/first/samples?against={raw}",
        f"/runs/first/sample?id={raw}&rep={raw}",
        f"/runs/first?against={raw}",
        f"/runs/first/compare?with={raw}&allow={raw}",
        f"/runs/first/side-by-side?with={raw}&id={raw}",
        f"/runs/first/report/{raw}",
        f"/runs/first/export.{raw}",
        f"/matrix?runs={raw}&show={raw}&sort={raw}",
        f"/matrix/plots?runs={raw}",
        f"/media/{raw}",
        f"/static/{raw}",
    ):
        answer = client.get(address)
        assert answer.status_code < 500, address
        assert "root:" not in answer.text
        if answer.headers["content-type"].startswith("text/html"):
            checked(answer.text)


def test_reports_sites_and_figures_hold_names_as_texts(folder: Path) -> None:
    out = folder / "out"
    gage(folder, "export", *RUNS, "--format", "site", "--to", "out/site", "--store", "store")
    shown = [f"--to=out/run{suffix}" for suffix in (".md", ".tex", ".csv", ".svg")]
    gage(folder, "show", "first", "--store", "store", *shown)
    changed = [f"--to=out/change{suffix}" for suffix in (".md", ".tex", ".csv", ".svg")]
    gage(folder, "compare", "first", "second", "--store", "store", *changed)
    pages = [*out.rglob("*.html"), *folder.rglob("report.html")]
    assert len(pages) == 5
    for file in pages:
        links = checked(file.read_text("utf-8")).links
        inside = [link.partition("#")[0] for link in links if not link.startswith("#")]
        assert all((file.parent / link).resolve().parent == file.parent.resolve() for link in inside)
        assert all((file.parent / unescape(link)).exists() for link in inside)
    for file in out.rglob("*.svg"):
        assert {element.tag.rpartition("}")[2] for element in ElementTree.parse(file).iter()} <= {
            *("svg", "title", "rect", "text", "g", "line", "path", "circle")
        }
    for file in out.rglob("*.csv"):
        with file.open(newline="", encoding="utf-8") as lines:
            assert len({len(row) for row in csv.reader(lines)}) == 1, file
    for file in (*out.rglob("*.tex"), *out.rglob("*.md")):
        text = file.read_text("utf-8")
        assert "\u202e" not in text
        assert "\n\tand" not in text
        assert not re.search(r"(?<!\\)<(script|img)", text), file


def test_a_terminal_gets_names_on_one_line_without_control_characters(folder: Path) -> None:
    for command in (["show", "first"], ["list", "runs"], ["compare", "first", "second"], ["show", "first", "--wrong"]):
        text = gage(folder, *command, "--store", "store").stdout
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text), command
