import asyncio
import csv
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gage_eval
from gage_eval.base.errors import InputError
from gage_eval.models.backends.base import BackendContext
from gage_eval.models.backends.build import build_backend
from gage_eval.models.backends.replay import Replay
from gage_eval.models.client.types import Request, Response

RECORDS = [{"id": "a", "answer": "1", "more": {"b.c": "x"}}, {"id": "b", "answer": "2", "more": {"b.c": "y"}}]


def replay(folder: Path, **config: Any) -> Replay:
    backend = build_backend("replay", config, BackendContext(folder))
    assert isinstance(backend, Replay)
    asyncio.run(backend.open(None))
    return backend


def ask(backend: Replay, sample_id: str = "", row: int = 0, lookup: str | None = None, replicate: int = 0) -> Response:
    request = Request("chat", messages=[], sample_id=sample_id, row_index=row, lookup=lookup, replicate=replicate)
    return asyncio.run(backend.call(request, b"{}"))


def write(folder: Path, name: str) -> None:
    path = folder / name
    if name.endswith(".jsonl"):
        path.write_text("\n".join(json.dumps(record) for record in RECORDS) + "\n\n")
    elif name.endswith(".jsonl.gz"):
        path.write_bytes(gzip.compress("\n".join(json.dumps(record) for record in RECORDS).encode()))
    elif name.endswith(".json"):
        path.write_text(json.dumps(RECORDS))
    elif name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(RECORDS), path)
    else:
        with path.open("w", newline="", encoding="utf-8-sig") as file:
            writer = csv.DictWriter(file, ["id", "answer"], extrasaction="ignore")
            writer.writeheader()
            writer.writerows(RECORDS)


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz", "r.json", "r.parquet", "r.csv"])
def test_every_format_gives_the_same_answers(tmp_path: Path, name: str) -> None:
    write(tmp_path, name)
    backend = replay(tmp_path, path=name, answer_field="answer")
    assert [ask(backend, sample_id).answer for sample_id in ("b", "a")] == ["2", "1"]
    by_row = replay(tmp_path, path=name, answer_field="answer", match="row")
    assert [ask(by_row, row=row).answer for row in (0, 1)] == ["1", "2"]


def test_half_a_character_in_a_record_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text('{"id": "a", "answer": "b\\ud800"}')
    response = ask(replay(tmp_path, path="r.jsonl", answer_field="answer"), "a")
    assert response.answer == "b\ufffd"
    assert Response.from_bytes(response.to_bytes()) == response


def test_several_files_are_read_as_one_in_sorted_order(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a").mkdir()
    (tmp_path / "b" / "r.json").write_text('[{"id": "y", "answer": "2"}]')
    (tmp_path / "a" / "r.json").write_text('[{"id": "x", "answer": "0"}, {"id": "z", "answer": "1"}]')
    by_id = replay(tmp_path, path="*/r.json", answer_field="answer")
    assert [ask(by_id, sample_id).answer for sample_id in ("x", "y", "z")] == ["0", "2", "1"]
    by_row = replay(tmp_path, path="*/r.json", answer_field="answer", match="row")
    assert [ask(by_row, row=row).answer for row in (0, 1, 2)] == ["0", "1", "2"]

    before = by_id.identity()
    (tmp_path / "b" / "r.json").write_text('[{"id": "y", "answer": "3"}]')
    assert by_id.identity() != before


def test_an_id_in_two_files_is_refused(tmp_path: Path) -> None:
    for name in ("1.json", "2.json"):
        (tmp_path / name).write_text('[{"id": "x", "answer": "0"}]')
    with pytest.raises(InputError, match=r"records 0 and 1 .* have the same id 'x'"):
        replay(tmp_path, path="?.json", answer_field="answer")


def test_a_mapping_of_ids_to_answers_needs_no_fields(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text('{"a": "A", "b": 2, "c": null, "d": ["x"]}')
    backend = replay(tmp_path, path="r.json")
    assert [ask(backend, key).answer for key in "abcd"] == ["A", "2", "", '["x"]']


def test_nested_records_and_dotted_fields_are_found(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(json.dumps({"out": {"rows": RECORDS}}))
    for field, answer in (("answer", "1"), ("more", '{"b.c":"x"}')):
        backend = replay(tmp_path, path="r.json", records_path="out.rows", answer_field=field)
        assert ask(backend, "a").answer == answer
    (tmp_path / "dots.json").write_text('{"a": {"b.c": "whole", "d": [{"e": "nested"}]}}')
    assert ask(replay(tmp_path, path="dots.json", answer_field="b.c"), "a").answer == "whole"
    assert ask(replay(tmp_path, path="dots.json", answer_field="d.0.e"), "a").answer == "nested"


def test_a_field_of_the_sample_finds_its_record(tmp_path: Path) -> None:
    write(tmp_path, "r.jsonl")
    backend = replay(
        tmp_path, path="r.jsonl", match="field", id_field="id", sample_field="metadata.q", answer_field="answer"
    )
    assert backend.lookup_field == "metadata.q"
    assert ask(backend, "other", lookup="b").answer == "2"


@pytest.mark.parametrize("config", [{}, {"match": "row"}, {"match": "field", "sample_field": "q"}])
def test_samples_that_ask_the_same_have_bodies_of_their_own(tmp_path: Path, config: dict[str, Any]) -> None:
    write(tmp_path, "answers.jsonl")
    backend = replay(tmp_path, path="answers.jsonl", answer_field="answer", **config)
    same: dict[str, Any] = {"kind": "chat", "messages": [{"role": "user", "content": "?"}]}
    first, other = (Request(**same, sample_id=f"s{n}", row_index=n, lookup=f"q{n}") for n in (1, 2))
    assert backend.body(first) != backend.body(other)


@pytest.mark.parametrize(("on_missing", "status"), [("error", "error"), ("skip", "skipped")])
def test_a_sample_without_a_record_is_what_the_config_says(tmp_path: Path, on_missing: str, status: str) -> None:
    write(tmp_path, "r.jsonl")
    response = ask(replay(tmp_path, path="r.jsonl", answer_field="answer", on_missing=on_missing), "zz")
    assert (response.status, response.error_kind) == (status, "no_record")


@pytest.mark.parametrize(
    ("text", "config", "sentence"),
    [
        ('{"id":"a"}\n{"id":"a"}', {}, "records 0 and 1 (from 0) have the same id 'a'"),
        ('{"id":"a","answer":1}', {"answer_field": "anser"}, "answer_field: no 'anser' in the records. Fields"),
        ('{"id":"a","answer":1}', {"answer_field": "anser"}, "Did you mean 'answer'?"),
        ('{"key":"a"}', {}, "id_field: no 'id' in the records. Fields here: key."),
        ('{"id":1}\n{"id"', {}, "line 2 is not JSON"),
        ("[1", {"format": "json"}, "cannot be read as json"),
        ("3", {"format": "json"}, "neither a list nor a mapping"),
        ("{}", {"format": "json", "records_path": "a.b"}, "records_path: no 'a.b'"),
        ('{"id": NaN}', {}, "line 1 is not JSON"),
        ('{"id":' + "[" * 1000 + "]" * 1000 + "}", {}, "line 1 is not JSON: it is nested too deep"),
        ('{"id":"a","x":' + "9" * 5000 + "}", {}, "line 1 is not JSON: an integer of 5,000 digits is too long"),
        ("[" * 100_000, {"format": "json"}, "cannot be read as json: it is nested too deep"),
        ('{"id":null}\n{"id":null}', {}, "records 0 and 1 (from 0) have the same id ''"),
        ("PAR1 and nothing else", {"format": "parquet"}, "cannot be read as parquet"),
    ],
)
def test_a_file_that_is_not_as_the_config_says_is_refused_in_one_sentence(
    tmp_path: Path, text: str, config: dict[str, Any], sentence: str
) -> None:
    (tmp_path / "r.jsonl").write_text(text)
    with pytest.raises(InputError) as caught:
        replay(tmp_path, path="r.jsonl", **config)
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("replay: r.jsonl: ")


def test_a_record_may_hold_an_answer_for_each_repetition(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text('{"a": ["x", 2], "b": ["y"]}')
    backend = replay(tmp_path, path="r.json", answer_field="{replicate}")
    said = [ask(backend, name, replicate=number) for name, number in (("a", 0), ("a", 1), ("b", 0), ("b", 1))]
    assert [response.answer for response in said] == ["x", "2", "y", None]
    assert said[-1].status == "error"
    (tmp_path / "r.jsonl").write_text('{"id":"a","samples":[{"text":"x"},{"text":"y"}]}')
    backend = replay(tmp_path, path="r.jsonl", answer_field="samples.{replicate}.text")
    assert ask(backend, "a", replicate=1).answer == "y"


def test_values_that_are_strange_but_whole_are_answers(tmp_path: Path) -> None:
    long = "x" * 200_000
    (tmp_path / "r.csv").write_text(f"id,answer\na,{long}\n")
    assert ask(replay(tmp_path, path="r.csv", answer_field="answer"), "a").answer == long
    lines = [
        '{"id":["a"],"answer":123456789012345678901234567890}',
        '{"id":"\\ud800","answer":null}',
        '{"id":"nul\\u0000","answer":{"x":[1,null]}}',
    ]
    (tmp_path / "r.jsonl").write_text("\n".join(lines))
    backend = replay(tmp_path, path="r.jsonl", answer_field="answer")
    answers = {key: ask(backend, key).answer for key in ('["a"]', "\ufffd", "nul\0")}
    assert answers == {'["a"]': "123456789012345678901234567890", "\ufffd": "", "nul\0": '{"x":[1,null]}'}


def test_a_bad_line_of_several_files_is_named_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id":"a"}\n')
    (tmp_path / "b.jsonl").write_text('{"id":"b"}\n{"id"')
    with pytest.raises(InputError, match=r"^replay: b\.jsonl: line 2 is not JSON"):
        replay(tmp_path, path="*.jsonl")


def test_a_missing_file_and_an_unknown_suffix_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file 'none\.jsonl'"):
        replay(tmp_path, path="none.jsonl")
    (tmp_path / "r.txt").write_text("")
    with pytest.raises(InputError, match=r"format of '\.txt' files is not known"):
        replay(tmp_path, path="r.txt")
    with pytest.raises(InputError, match="match: field needs sample_field"):
        replay(tmp_path, path="r.txt", match="field")


def test_the_identity_is_the_file_s_content_and_not_its_name(tmp_path: Path) -> None:
    for name in ("one.jsonl", "two.jsonl"):
        write(tmp_path, name)
    identities = [replay(tmp_path, path=name, answer_field="answer").identity() for name in ("one.jsonl", "two.jsonl")]
    assert identities[0] == identities[1]
    assert str(tmp_path) not in json.dumps(identities)
    (tmp_path / "two.jsonl").write_text('{"id":"a","answer":"other"}')
    assert replay(tmp_path, path="two.jsonl", answer_field="answer").identity() != identities[0]


@pytest.mark.parametrize(
    ("path", "config", "rows"),
    [
        (
            "gsm8k_openai_solutions/example_model_solutions.jsonl",
            {"match": "row", "answer_field": "175b_verification.solution"},
            1319,
        ),
        (
            "docvqa_llama_scout/llama_scout_results.json",
            {"id_field": "questionId", "answer_field": "predicted_answer"},
            1000,
        ),
        ("mmmu_llava15_13b/llava1.5_13b_val.json", {}, 900),
    ],
)
def test_published_runs_are_replayed_whole(shared: Path, path: str, config: dict[str, Any], rows: int) -> None:
    backend = replay(shared / "data" / "replays", path=path, **config)
    assert backend._answers is not None
    assert len(backend._answers) == rows


LM_EVAL = [
    {"doc_id": n, "doc": {"question": question}, "target": target, "resps": [[answer]], "filter": "none"}
    for n, (question, target, answer) in enumerate([("1 + 1?", "#### 2", "It is 2."), ("2 + 2?", "#### 4", "It is 5.")])
]
INSPECT = {
    "version": 2,
    "samples": [
        {"id": name, "input": name, "target": "2", "output": {"choices": [{"message": {"content": answer}}]}}
        for name, answer in (("1 + 1?", "2"), ("4 - 2?", "3"))
    ],
}


@pytest.mark.parametrize("name", ["samples_gsm8k.jsonl", "log.json"])
def test_the_configs_of_the_page_score_logs_of_other_tools(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repo_root: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (repo_root / "docs" / "backends.md").read_text(encoding="utf-8")
    (text,) = [block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if f"path: {name}\n" in block]
    Path("log.yaml").write_text(text)
    Path("samples_gsm8k.jsonl").write_text("\n".join(map(json.dumps, LM_EVAL)))
    Path("log.json").write_text(json.dumps(INSPECT))
    (metric,) = gage_eval.run("log.yaml").summary.metrics
    assert (metric.n, metric.value) == (2, 0.5)
