"""Programs learn what went wrong by a word, not by a sentence."""

import re
from collections.abc import Iterator
from pathlib import Path

import orjson

import gage_eval.extend.allowed_code
import gage_eval.models.client.types  # noqa: F401 - defines errors
from gage_eval.base.errors import GageError
from tests.cli.conftest import Gage

PAGE = Path(__file__).parents[2] / "docs" / "errors-and-exit-codes.md"


def classes(base: type[GageError]) -> Iterator[type[GageError]]:
    yield base
    for sub in base.__subclasses__():
        yield from classes(sub)


def test_every_kind_is_on_the_page_with_its_exit_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    ours = {(error.kind, str(error.exit_code)) for error in classes(GageError) if error.__module__.startswith("gage_")}
    assert set(rows) == ours


def test_json_asks_for_errors_as_json_on_standard_error(gage: Gage, workspace: Path) -> None:
    said = gage("show", "ghost", "--json")
    error = orjson.loads(said.err)["error"]
    assert (said.code, said.out, error["kind"], error["exit_code"]) == (2, "", "not_found", 2)
    assert "ghost" in error["message"]
    (workspace / "broken.yaml").write_text("tasks: [{task_id: \x7f}]\nmetrics: 3\n")
    broken = orjson.loads(gage("run", "broken.yaml", "--json").err)["error"]
    assert broken["kind"] == "config"
    assert {"path", "line", "message"} == broken["problems"][0].keys()


def test_without_json_it_is_a_sentence(gage: Gage) -> None:
    assert gage("show", "ghost").err.startswith("no run 'ghost'")
