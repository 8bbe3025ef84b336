"""A browser without scripts: the viewer's pages over small stored runs."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
from starlette.testclient import TestClient

import gage_eval
from gage_eval.runs.options import Locations
from gage_eval.viewer.app import viewer_app
from gage_eval.viewer.open_runs import OpenRuns
from tests.support.waiting import wait_for
from tests.support.workspace import write_config

TOKEN = "a-token-of-the-tests"
HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{ 7*7 }}&lt;"
ROWS = 12


def write_questions(folder: Path, *, name: str = "rows.jsonl", hostile: bool = False) -> None:
    """Sums with a topic; the answer to every third one is 2."""
    records = []
    for i in range(ROWS):
        question = f"What is {i % 3} + 1?" + (f" {HOSTILE}" if hostile else f" ({i})")
        identity = f"s{i} {HOSTILE}" if hostile else f"s{i}"
        topic = HOSTILE if hostile and i % 2 else ("even" if i % 2 == 0 else "odd")
        records.append(
            {
                "id": identity,
                "question": question,
                "answer": str(i % 3 + 1),
                "data_tag": {"topic": topic, "level": "easy" if i % 3 == 1 else "hard"},
                "metadata": {"note": HOSTILE if hostile else "none"},
            }
        )
    (folder / name).write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))


def answers(answer: str) -> list[dict[str, Any]]:
    """A backend that always answers that."""
    return [{"backend_id": "model", "type": "dummy", "config": {"mode": "fixed", "answer": answer}}]


def run(folder: Path, run_id: str, **changes: Any) -> None:
    """A run named ``small`` in the folder's store."""
    metrics = [{"metric_id": "exact_match"}, {"metric_id": "contains"}]
    config = write_config(folder, f"{run_id}.yaml", **{"metrics": metrics, **changes})
    gage_eval.run(config, run_id=run_id, store=str(folder / "store"), inline=True)


class Browser(TestClient):
    """Loads a page again while it says that what it shows is still being made."""

    def get(self, url: Any, **rest: Any) -> Any:
        return wait_for(
            lambda: (answer := super(Browser, self).get(url, **rest)).status_code != 202 and answer,
            "a page",
            every_s=0.05,
        )


@contextmanager
def viewer(
    folder: Path, *, token: bool = True, store: str | None = None, public_url: str | None = None
) -> Iterator[TestClient]:
    """A browser that has shown the token, or has not; at the address of a team's proxy, if there is one."""
    open_runs = OpenRuns(Locations.at(store or str(folder / "store"), None), folder / "cache")
    app, url = viewer_app(open_runs, TOKEN, public_url), public_url or "http://127.0.0.1:4280"
    client = Browser(app, base_url=url, follow_redirects=True)
    if token:
        assert client.get("/", params={"token": TOKEN}).status_code == 200
    try:
        yield client
    finally:
        open_runs.close()


def page(client: TestClient, address: str) -> str:
    """The text of a page, after its index is made."""
    response = wait_for(
        lambda: "Making the index of its answers" not in (shown := client.get(address)).text and shown, "its index"
    )
    assert response.status_code == 200, response.text
    return str(response.text)


def ids(text: str) -> list[str]:
    """The sample ids of a list, in its order."""
    return [
        unescape(title) for title in re.findall(r'<a data-row href="[^"]*"><span class="mono" title="([^"]*)"', text)
    ]


def samples(client: TestClient, run_id: str, **query: Any) -> str:
    """The list of a run's answers."""
    terms = "&".join(f"{name}={quote(str(value))}" for name, value in query.items())
    return page(client, f"/runs/{run_id}/samples?{terms}")
