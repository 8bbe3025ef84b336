"""Promises of SQL over runs: documented views, the same numbers as everywhere, and no way out of the store."""

import csv
import io
import signal
import threading
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gage_eval
from gage_eval.base.errors import InputError
from gage_eval.runs.options import Locations
from gage_eval.runs.results.sql import VIEWS, Database, columns
from gage_eval.runs.results.tabular import csv_header, csv_lines, csv_records, records, write_table
from tests.support.runs import gage
from tests.support.waiting import wait_for
from tests.support.workspace import write_config, write_rows


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two runs over six sums: one right answer each."""
    folder = tmp_path_factory.mktemp("sql")
    write_rows(folder)
    write_config(folder)
    other = {"backend_id": "model", "type": "dummy", "config": {"mode": "fixed", "answer": "3"}}
    write_config(folder, "other.yaml", backends=[other], metrics=["exact_match", "contains"])
    url = str(folder / "store")
    gage_eval.run(folder / "mine.yaml", run_id="first", store=url)
    gage_eval.run(folder / "other.yaml", run_id="second", store=url)
    return url


def query(store: str, text: str, *runs: str) -> list[dict[str, object]]:
    return gage_eval.sql(text, runs=runs, store=store).to_pylist()


def test_scores_are_those_of_the_summary(store: str) -> None:
    scores = query(store, "SELECT run_id, metric_id, avg(value) AS mean FROM scores GROUP BY ALL ORDER BY ALL")
    assert [(row["run_id"], row["metric_id"]) for row in scores] == [
        ("first", "exact_match"),
        ("second", "contains"),
        ("second", "exact_match"),
    ]
    for row in scores:
        metrics = gage_eval.open_run(str(row["run_id"]), store=store).summary.metrics
        assert row["mean"] == next(metric.value for metric in metrics if metric.metric_id == row["metric_id"])
    stored = query(store, "SELECT run_id, metric_id, value FROM metrics WHERE slice_field IS NULL ORDER BY ALL")
    assert [row["value"] for row in stored] == [row["mean"] for row in scores]


def test_every_view_has_the_columns_that_are_listed(store: str) -> None:
    for name, listed in columns().items():
        described = query(store, f"DESCRIBE {name}")
        assert [row["column_name"] for row in described] == [column for column, _ in listed]
    assert set(columns()) == {"runs", "answers", "steps", *(view.name for view in VIEWS)}


def test_a_query_without_an_end_stops_at_ctrl_c(store: str) -> None:
    def press() -> None:
        """Ctrl-C once the query has its thread."""
        wait_for(lambda: any(thread.name.startswith("gage-eval-sql") for thread in threading.enumerate()), "a thread")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    pressing = threading.Thread(target=press)
    pressing.start()
    with pytest.raises(KeyboardInterrupt):
        query(
            store, "SELECT count(*) FROM range(100000) a, range(100000) b, range(1000) c WHERE a.range * b.range = -1"
        )
    pressing.join()
    assert query(store, "SELECT 1 AS one") == [{"one": 1}]


def test_answers_have_their_questions_and_references(store: str) -> None:
    rows = query(store, "SELECT * FROM answers ORDER BY row_index", "first")
    assert [(row["sample_id"], row["question"], row["answer"], row["expected"], row["status"]) for row in rows[:2]] == [
        ("s0", "0 + 1 = ?", rows[0]["answer"], "1", "ok"),
        ("s1", "1 + 1 = ?", "2", "2", "ok"),
    ]
    assert [row["length"] for row in rows] == [len(str(row["answer"])) for row in rows]
    by_run = query(store, "SELECT run_id, count(*) AS n FROM answers GROUP BY 1 ORDER BY 1")
    assert [(row["run_id"], row["n"]) for row in by_run] == [("first", 6), ("second", 6)]


def test_views_join_to_the_question_and_its_answer(store: str) -> None:
    joined = query(
        store,
        "SELECT s.id, r.answer, c.value FROM samples s JOIN responses r USING (run_id, task_id, row_index) "
        "JOIN scores c USING (run_id, task_id, row_index) WHERE metric_id = 'exact_match' AND value = 1 ORDER BY ALL",
    )
    assert joined == [{"id": "s1", "answer": "2", "value": 1.0}, {"id": "s2", "answer": "3", "value": 1.0}]


AGENT = """
import json
from gage_eval.plugins import BaseBackend, Response
class Agent(BaseBackend):
    type = "agent"
    capabilities = frozenset({"chat", "tools"})
    def body(self, request):
        return {"messages": request.messages}
    async def open(self, log_folder): ...
    async def close(self): ...
    async def call(self, request, body):
        if len(request.messages) > 1:
            return Response("ok", answer="done", prompt_tokens=10, completion_tokens=0, latency_ms=2.0)
        calls = [{"function": {"name": "double", "arguments": json.dumps({"number": n})}} for n in (1, "x")]
        return Response(
            "ok", "let me see", tool_calls=json.dumps(calls), prompt_tokens=10, completion_tokens=0, latency_ms=2.0
        )
def double(number: int) -> int:
    return 2 * number
"""


def test_each_step_of_an_episode_is_a_row(tmp_path: Path) -> None:
    write_rows(tmp_path)
    (tmp_path / "agent.py").write_text(AGENT)
    adapter = {"adapter_id": "agent", "role_type": "dut_model", "backend_id": "model"}
    write_config(
        tmp_path,
        backends=[{"backend_id": "model", "type": "agent.py:Agent", "config": {"input_price": 10.0}}],
        role_adapters=[{**adapter, "tools": ["agent.py:double"], "tool_rounds": 2}],
    )
    url = str(tmp_path / "store")
    gage_eval.run(tmp_path / "mine.yaml", run_id="agent", store=url)
    steps = query(
        url,
        "SELECT step, parent, turn, call, actor, role, tool, arguments, content, status, prompt_tokens, cost, source "
        "FROM steps WHERE row_index = 0 ORDER BY step",
    )
    refused = steps[2].pop("content")
    assert "number" in refused
    assert [tuple(step.values()) for step in steps] == [
        (1, None, 1, 0, "model", "assistant", None, None, "let me see", "ok", 10, 0.0001, "sent"),
        (2, 1, 1, 1, "tool", "tool", "double", '{"number": 1}', "2", "ok", None, None, "run"),
        (3, 1, 1, 2, "tool", "tool", "double", '{"number": "x"}', "error", None, None, "run"),
        (4, 3, 2, 0, "model", "assistant", None, None, "done", "ok", 10, 0.0001, "sent"),
    ]
    timed = query(url, "SELECT count(seconds) AS n, count(DISTINCT call_key) AS keys FROM steps WHERE row_index = 0")
    assert timed == [{"n": 4, "keys": 2}]


def test_only_the_named_runs_are_there(store: str) -> None:
    assert query(store, "SELECT run_id FROM runs", "second") == [{"run_id": "second"}]
    assert query(store, "SELECT DISTINCT run_id FROM responses", "second") == [{"run_id": "second"}]
    with pytest.raises(InputError, match="no run 'third'"):
        query(store, "SELECT 1", "third")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('/etc/hostname')",
        "SELECT content FROM read_text('/etc/hostname')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM '/etc/hostname'",
        "COPY (SELECT 1) TO '{folder}/out.csv'",
        "EXPORT DATABASE '{folder}/out'",
        "ATTACH '{folder}/out.db'",
        "INSERT INTO runs VALUES ('x')",
        "DROP VIEW samples",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        "PRAGMA database_list",
        "SELECT 1; SELECT 2",
        "",
        "SELEC 1",
        "SELECT nothing FROM runs",
    ],
)
def test_what_is_no_query_of_these_runs_is_refused_in_a_sentence(store: str, tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError) as refused:
        query(store, text.format(folder=tmp_path))
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_column_is_answered_with_the_one_that_was_meant(store: str) -> None:
    with pytest.raises(InputError, match=r"^there is no column 'metric'\. Did you mean 'metric_id'\?$"):
        query(store, "select metric from scores")


def test_a_column_of_another_view_is_answered_with_that_view(store: str) -> None:
    with pytest.raises(InputError, match=r"^there is no column 'latency_ms'; answers, telemetry have it\.$"):
        query(store, "select avg(latency_ms) from responses")
    with pytest.raises(InputError, match=r"^there is no column 'filter' in 'a'; scores, metrics have it\.$"):
        query(store, "select a.filter from responses a")
    with pytest.raises(
        InputError, match=r"^there is no column 'zzz'\. 'gage sql' lists the views and their columns\.$"
    ):
        query(store, "select zzz from responses")


def test_an_unknown_view_is_answered_with_the_one_that_was_meant(store: str) -> None:
    with pytest.raises(InputError, match=r"^there is no view 'score'\. Did you mean 'scores'\?$"):
        query(store, "select * from score")
    with pytest.raises(InputError, match=r"^there is no view 'zzz'\. 'gage sql' lists "):
        query(store, "select * from zzz")


def test_another_file_of_the_store_cannot_be_read(store: str) -> None:
    with pytest.raises(InputError, match="no other file"):
        query(store, f"SELECT content FROM read_text('{store}/runs/first/run.json')")


def test_a_damaged_run_hides_no_other(store: str, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    (folder / "broken").mkdir(parents=True)
    (folder / "broken" / "run.json").write_text("{", encoding="utf-8")
    with Database(Locations.at(store, str(folder))) as database:
        assert database.query("SELECT count(*) AS n FROM runs").to_pylist() == [{"n": 0}]


def test_a_store_without_runs_has_empty_views(tmp_path: Path) -> None:
    write_rows(tmp_path, 1)
    elsewhere = str(tmp_path / "elsewhere")
    gage_eval.run(write_config(tmp_path), store=str(tmp_path / "store"), output_dir=elsewhere)
    counts = gage_eval.sql("SELECT count(*) AS n FROM scores", store=str(tmp_path / "store")).to_pylist()
    assert counts == [{"n": 0}]


def test_tables_are_written_for_other_programs(store: str, tmp_path: Path) -> None:
    table = gage_eval.sql(
        "SELECT '=1+1' AS formula, {'a': [1, 2]} AS nested, created FROM runs ORDER BY created LIMIT 1", store=store
    )
    for name in ("x.csv", "x.jsonl", "x.parquet"):
        write_table(table, tmp_path / name)
    assert (tmp_path / "x.csv").read_text(encoding="utf-8").splitlines()[1].startswith('\'=1+1,"{""a"":[1,2]}",')
    assert orjson.loads((tmp_path / "x.jsonl").read_bytes())["nested"] == {"a": [1, 2]}
    assert pq.read_table(tmp_path / "x.parquet").equals(table)
    with pytest.raises(InputError, match="the format is unknown"):
        write_table(table, tmp_path / "x.pdf")


def test_frames_have_one_row_per_answer_run_and_task(store: str) -> None:
    frame = gage_eval.open_run("second", store=store).frame()
    assert len(frame) == 12
    right = frame[(frame.metric_id == "exact_match") & (frame.value == 1)]
    assert right[["sample_id", "answer", "reference"]].to_numpy().tolist() == [["s2", "3", "3"]]
    assert set(gage_eval.list_runs(store=store)["run"]) == {"first", "second"}
    compared = gage_eval.compare("first", "second", store=store)
    assert compared.loc[0, ["difference", "n"]].tolist() == [0.0, 6]


def test_columns_of_one_name_are_kept_apart(store: str) -> None:
    table = gage_eval.sql("SELECT a.sample_id, b.sample_id, 1 AS sample_id_1, 2 AS sample_id "
                          "FROM responses a JOIN responses b USING (response_key) LIMIT 1", store=store)  # fmt: skip
    assert table.column_names == ["sample_id", "sample_id_1", "sample_id_1_1", "sample_id_2"]
    header, line = (csv_header(table) + csv_lines(table)).decode().splitlines()
    assert len(line.split(",")) == len(header.split(",")) == 4


VALUES = {
    "'nan'::DOUBLE": None,
    "['inf'::DOUBLE, 1.5]": [None, 1.5],
    "TIME '10:00:01'": "10:00:01",
    "INTERVAL '1 month 2 days 3.5 seconds'": "P1M2DT3.5S",
    "{'a': INTERVAL 1 day}": {"a": "P0M1DT0S"},
    "MAP {'k': DATE '2026-01-02'}": {"k": "2026-01-02"},
}


@pytest.mark.parametrize("value", VALUES)
def test_values_that_json_lacks_are_written_all_the_same(store: str, tmp_path: Path, value: str) -> None:
    table = gage_eval.sql(f"SELECT {value} AS x", store=store)
    assert records(table) == [{"x": VALUES[value]}]
    write_table(table, tmp_path / "x.jsonl")
    assert orjson.loads((tmp_path / "x.jsonl").read_bytes()) == {"x": VALUES[value]}


def test_gage_sql_prints_columns_of_one_name_and_values_that_json_lacks(store: str, tmp_path: Path) -> None:
    query = f"SELECT 1 AS a, 2 AS a, {', '.join(VALUES)}"
    printed = gage(tmp_path, "sql", query, "--store", store).stdout
    assert printed.split()[:2] == ["a", "a_1"]
    assert "10:00:01" in printed


def test_what_a_file_cannot_hold_is_refused_with_a_remedy(store: str, tmp_path: Path) -> None:
    far = gage_eval.sql("SELECT 'infinity'::DATE AS d", store=store)
    with pytest.raises(InputError, match="CAST"):
        write_table(far, tmp_path / "x.csv")
    lasting = gage_eval.sql("SELECT INTERVAL 1 day AS d", store=store)
    with pytest.raises(InputError, match="CAST"):
        write_table(lasting, tmp_path / "x.parquet")


@pytest.mark.parametrize("text", ["a\r=1+1", "\r=1+1", "\n=1+1", "\r\n=1+1", "=1+1", '"\r', "a\r\n", "a\n"])
def test_a_line_break_in_a_cell_of_csv_begins_no_line_and_no_formula(text: str) -> None:
    table = pa.table({"=name": [text, "b"], "other": [1, 2]})
    for written in (csv_header(table) + csv_lines(table), b"".join(csv_records(table.to_pylist(), table.column_names))):
        rows = list(csv.reader(io.StringIO(written.decode(), newline="")))
        assert [len(row) for row in rows] == [2, 2, 2]
        assert rows[1][0].removeprefix("'") == text
        assert not any(cell.startswith(("=", "\r", "\n")) for row in rows for cell in row)
        assert written.decode().count("\n") - text.count("\n") == 3, "lines end with LF alone"
