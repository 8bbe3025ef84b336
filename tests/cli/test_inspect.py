"""validate, preview, list and schema: what they say is true, and nothing is sent."""

from pathlib import Path

import orjson
import pytest

from gage_eval.models.backends.dummy import Dummy
from tests.cli.conftest import Gage
from tests.support.workspace import JUDGED, ROWS, write_config


class TestValidate:
    def test_a_right_config_is_said_in_one_line(self, gage: Gage) -> None:
        said = gage("validate", "mine.yaml")
        assert said.code == 0
        assert said.out == "mine.yaml is valid: task sums · dataset sums · model dummy · metric exact_match\n"

    def test_all_mistakes_are_said_at_once_with_exit_code_2(self, gage: Gage, workspace: Path) -> None:
        write_config(workspace, metrics=["exact_mach"], backends=[{"backend_id": "m", "type": "dumy"}])
        said = gage("validate", "mine.yaml")
        assert said.code == 2
        assert "has 2 problems" in said.err
        assert "Did you mean 'exact_match'?" in said.err
        assert "Did you mean 'dummy'?" in said.err

    def test_a_data_file_that_is_not_there_is_a_mistake(self, gage: Gage) -> None:
        said = gage("validate", "mine.yaml", "--set", "datasets[0].params.path=row.jsonl")
        assert said.code == 2
        assert "no file 'row.jsonl'. Did you mean 'rows.jsonl'?" in said.err

    def test_problems_as_json_have_line_and_path(self, gage: Gage, workspace: Path) -> None:
        write_config(workspace, metrics=["exact_mach"])
        said = gage("validate", "mine.yaml", "--json")
        assert said.code == 2
        assert said.json["valid"] is False
        (problem,) = said.json["problems"]
        assert problem["path"].startswith("metrics[0]")
        assert isinstance(problem["line"], int)

    def test_a_suite_can_be_validated(self, gage: Gage) -> None:
        assert gage("validate", "suite:demo").code == 0
        assert "Did you mean 'demo'?" in gage("validate", "suite:dem").err

    def test_a_metric_that_waits_for_a_judge_nobody_configured_is_refused(self, gage: Gage) -> None:
        said = gage("validate", "mine.yaml", "--set", "metrics=[{text_length: {target_field: judge_output.answer}}]")
        assert said.code == 2
        assert "the task has no judge" in said.err

    def test_json_says_where_each_value_came_from(self, gage: Gage) -> None:
        for more in ([], ["--no-plugins"]):
            said = gage("validate", "mine.yaml", "--set", "datasets.sums.params.limit=2", "--json", *more)
            assert said.code == 0
            origins = said.json["origins"]
            assert origins["datasets[0].params.path"].startswith("mine.yaml:")
            assert origins["datasets[0].params.limit"] == "--set datasets.sums.params.limit"
            assert origins["datasets[0].loader"] == "rule loader: the default loader of this data is 'jsonl'"

    def test_a_config_of_somebody_else_is_listed_and_its_mistakes_said(self, gage: Gage, workspace: Path) -> None:
        write_config(workspace, metrics=["theirs.py:score"])
        said = gage("validate", "mine.yaml", "--no-plugins")
        assert said.code == 0
        assert "no plug-in or program that it names was started" in said.out
        lines = [line.split() for line in said.out.splitlines()]
        assert ["read", str(workspace / "rows.jsonl"), "datasets[0].params.path"] in lines
        assert ["run", f"{workspace}/theirs.py:score", "metrics[0].implementation", "there", "is"] in [
            line[:5] for line in lines
        ]
        refused = gage("validate", "mine.yaml", "--no-plugins", "--set", "tasks.sums.metric_overrides=[exact_mach]")
        assert refused.code == 2
        assert "theirs.py:score" in refused.out
        assert "Did you mean 'exact_match'?" in refused.err

    def test_nothing_is_written(self, gage: Gage, workspace: Path) -> None:
        before = sorted(workspace.iterdir())
        gage("validate", "mine.yaml")
        assert sorted(workspace.iterdir()) == before


class TestPreview:
    def test_bodies_and_keys_are_those_of_the_run(self, gage: Gage) -> None:
        shown = gage("preview", "mine.yaml", "-n", "2", "--json").json["requests"]
        gage("run", "mine.yaml", "--inline", "--run-id", "r")
        for request in shown:
            sent = gage("show", "r", "--sample", request["sample_id"], "--json").json[0]["calls"][0]
            assert sent["response"]["response_key"] == request["response_key"]
            assert sent["request"] == request["body"]

    def test_the_first_samples_are_shown_as_text(self, gage: Gage) -> None:
        said = gage("preview", "mine.yaml", "-n", "1")
        assert "sums · infer · sample s0 · row 0 · key " in said.out
        assert "temperature=0" in said.out
        assert "  [user]\n    0 + 1 = ?\n" in said.out
        assert f"1 of {ROWS} requests shown; nothing was sent." in said.out

    def test_questions_in_turn_show_where_the_model_answers(self, gage: Gage, workspace: Path) -> None:
        (workspace / "rows.jsonl").write_bytes(orjson.dumps({"question_id": 1, "turns": ["one?", "two?"]}))
        params = {"path": "rows.jsonl", "preprocess": "mt_bench"}
        write_config(workspace, datasets=[{"dataset_id": "talk", "params": params}], metrics=["text_length"])
        said = gage("preview", "mine.yaml").out
        assert "  [user]\n    one?\n  [assistant]\n    … the model's answer, before the next question\n" in said
        assert said.count("[assistant]") == 1

    def test_nothing_is_sent_and_no_run_is_made(self, gage: Gage, monkeypatch: pytest.MonkeyPatch) -> None:
        async def refuse(*_: object) -> None:
            raise AssertionError("preview asked the model")

        monkeypatch.setattr(Dummy, "call", refuse)
        assert gage("preview", "mine.yaml").code == 0
        assert gage("show", "--json").json == []

    def test_one_sample_can_be_chosen(self, gage: Gage) -> None:
        shown = gage("preview", "mine.yaml", "--sample-id", "s4", "--json").json["requests"]
        assert [request["sample_id"] for request in shown] == ["s4"]

    def test_control_characters_of_data_do_not_reach_the_terminal(self, gage: Gage, workspace: Path) -> None:
        record = {"id": "x\x1b[2J", "question": "red\x1b[31m\nnext\rline", "answer": "1"}
        (workspace / "rows.jsonl").write_bytes(orjson.dumps(record))
        said = gage("preview", "mine.yaml")
        assert said.code == 0
        assert "next" in said.out
        assert not [char for char in said.out if not char.isprintable() and char != "\n"]

    def test_the_judge_is_shown_once_there_is_something_to_judge(self, gage: Gage, workspace: Path) -> None:
        write_config(workspace, **JUDGED)
        before = gage("preview", "mine.yaml", "--json").json
        assert {request["stage"] for request in before["requests"]} == {"infer"}
        assert "the requests of judge show the responses" in before["notes"][0]
        gage("run", "mine.yaml", "--inline")
        after = gage("preview", "mine.yaml", "-n", "1", "--json").json
        assert after["notes"] == []
        body = after["requests"][-1]["body"]
        assert body["messages"][-1]["content"] == "Is 2 right? Expected: 1"

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("--task", "sum"), "Did you mean 'sums'?"),
            (("--sample-id", "zzz"), "no sample has the id 'zzz'"),
        ],
    )
    def test_what_is_not_there_is_named(self, gage: Gage, arguments: tuple[str, ...], message: str) -> None:
        said = gage("preview", "mine.yaml", *arguments)
        assert said.code == 2
        assert message in said.err


class TestList:
    @pytest.mark.parametrize("kind", ["metrics", "backends", "loaders", "preprocessors", "filters"])
    def test_every_plug_in_has_name_version_summary_and_origin(self, gage: Gage, kind: str) -> None:
        for entry in gage("list", kind, "--json").json:
            assert entry["name"]
            assert entry["version"] >= 1
            assert entry["summary"]
            assert entry["origin"] == "builtin"

    def test_the_manifest_holds_every_kind_and_what_a_metric_takes(self, gage: Gage) -> None:
        manifest = gage("list", "--json").json
        assert {"metrics", "backends", "loaders", "preprocessors", "filters", "suites"} <= manifest.keys()
        numeric = next(entry for entry in manifest["metrics"] if entry["name"] == "exact_match")
        assert numeric["info"]["parameters"]

    def test_suites_and_runs_are_listed(self, gage: Gage) -> None:
        gage("run", "mine.yaml", "--inline", "--run-id", "mine-1")
        assert "demo" in [suite["name"] for suite in gage("list", "suites", "--json").json]
        assert [run["run"] for run in gage("list", "runs", "--json").json] == ["mine-1"]
        assert "mine-1" in gage("list", "runs").out

    def test_an_unknown_kind_is_refused_with_the_closest(self, gage: Gage) -> None:
        said = gage("list", "metrixs")
        assert said.code == 2
        assert "Did you mean 'metrics'?" in said.err


class TestSchema:
    @pytest.mark.parametrize("name", ["config", "summary", "sample"])
    def test_a_schema_is_a_json_schema(self, gage: Gage, name: str) -> None:
        assert gage("schema", name).json["type"] == "object"

    def test_it_goes_to_a_file(self, gage: Gage, workspace: Path) -> None:
        gage("schema", "config", "--output", "config.schema.json")
        assert orjson.loads((workspace / "config.schema.json").read_bytes())["properties"]

    def test_mistakes_are_said(self, gage: Gage) -> None:
        assert "Did you mean 'summary'?" in gage("schema", "sumary").err
        said = gage("schema", "config", "--output", "mine.yaml/config.json")
        assert said.code == 2
        assert "cannot be written" in said.err
