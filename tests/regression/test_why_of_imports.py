"""`gage why` on logs of other tools and on telemetry of an older version: the classes hold, and what lacks is said."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gage_eval.base.tables import RESPONSE_TELEMETRY, TableSchema
from gage_eval.imports.folder import write_import
from gage_eval.imports.read import read_log
from gage_eval.regression.why import TaskWhy, why
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.options import Locations
from gage_eval.runs.results.reading import RunReader
from gage_eval.store import Store
from gage_eval.store.artifacts import ArtifactWriter
from tests.support.tied_model import tied_model
from tests.support.workspace import write_config

# What a test plants, by sample: another answer, gold, prompt, score alone; and of two changes the first one counts.
PLANTED = {1: {"answer"}, 2: {"answer"}, 3: {"gold"}, 4: {"prompt"}, 5: {"score"}, 6: {"prompt", "answer"}}
EXPECTED = {"sample": ["3"], "prompt": ["4", "6"], "token_not_known": ["1", "2"], "scorer": ["5"]}
Row = dict[str, Any]


def of_lm_eval(number: int, planted: set[str]) -> Row:
    prompt = f"{'Be brief. ' if 'prompt' in planted else ''}What is {number} + 1?"
    said = "no" if "answer" in planted else str(number + 1)
    return {
        "doc_id": number,
        "doc": {"q": "sum"},
        "target": "none" if "gold" in planted else str(number + 1),
        "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": {"until": ["\n"]}}},
        "resps": [[said]],
        "filtered_resps": [said],
        "filter": "none",
        "metrics": ["exact_match"],
        "exact_match": 0.0 if planted else 1.0,
    }


def of_records(number: int, planted: set[str]) -> Row:
    return {
        "id": number,
        "question": f"{'Be brief. ' if 'prompt' in planted else ''}What is {number} + 1?",
        "target": "none" if "gold" in planted else str(number + 1),
        "output": "no" if "answer" in planted else str(number + 1),
        "score": 0.0 if planted else 1.0,
    }


def imported(folder: Path, form: Callable[[int, set[str]], Row], name: str, planted: dict[int, set[str]]) -> RunReader:
    file = folder / f"samples_sums_{name}.jsonl"
    file.write_text("".join(json.dumps(form(number, planted.get(number, set()))) + "\n" for number in range(8)))
    log = read_log(file)
    log.task = "sums"
    config = write_import(log, file, folder / name)
    store = str(folder / "store")
    run_inline(RunOptions(config=str(config), run_id=name, store=store))
    return RunReader.open(Locations.at(store), name)


def by_cause(result: TaskWhy) -> dict[str, list[str]]:
    causes: dict[str, list[str]] = {}
    for flip in result.flips:
        causes.setdefault(flip.cause, []).append(flip.sample_id)
    return {cause: sorted(ids) for cause, ids in causes.items()}


@pytest.mark.parametrize("form", [of_lm_eval, of_records])
def test_the_causes_in_a_log_of_another_tool_are_found_and_what_it_lacks_is_said(
    tmp_path: Path, form: Callable[[int, set[str]], Row]
) -> None:
    a, b = imported(tmp_path, form, "a", {}), imported(tmp_path, form, "b", PLANTED)
    (result,) = why(a, b)
    assert by_cause(result) == EXPECTED
    said = " ".join(result.lacking)
    for name in ("a", "b"):
        assert f"{name} stores no log-probabilities of tokens" in said
        assert f"{name} stores no sampling parameters" in said
        assert f"{name} stores no number of prompt tokens" in said


def without_new_columns(run: RunReader) -> RunReader:
    """The run as an older version has stored it: its telemetry lacks the columns that came later."""
    store = Store.open(run.stored.folder.locations.store)
    telemetry = run.task().artifact("response_telemetry")
    kept = [field for field in RESPONSE_TELEMETRY.arrow if field.name not in ("prompt_digest", "tokens")]
    older = TableSchema(RESPONSE_TELEMETRY.name, 2, pa.schema(kept))
    with ArtifactWriter(store.objects, older) as writer:
        for part in telemetry.parts:
            writer.write(part.index, telemetry.read(part.index).select(older.arrow.names))
        artifact = writer.commit()
    infer = run.stored.record.stages["sums/infer"]
    outputs = {**infer.outputs, "response_telemetry": artifact.id}
    run.stored.folder.update(
        lambda record: record.with_stages({"sums/infer": infer.model_copy(update={"outputs": outputs})})
    )
    return RunReader.open(run.stored.folder.locations, run.run_id)


def test_telemetry_of_an_older_version_leaves_the_classes_that_it_can_tell(tmp_path: Path) -> None:
    rows = [{"id": f"s{n}", "question": f"{n} + 1 = ?", "answer": str(n + 1)} for n in range(40)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    metric = {
        "metric_id": "exact_match",
        "filters": [{"name": "read", "steps": [{"regex": {"pattern": r"(\w+)\.?$"}}]}],
    }
    with tied_model() as url:

        def run(name: str, model: str) -> RunReader:
            params_sent = {"temperature": 0, "max_new_tokens": 16, "token_logprobs": 2}
            config = {"base_url": url, "model": model, "default_params": params_sent}
            backend = {"backend_id": "model", "type": "openai_http", "config": config}
            file = write_config(tmp_path, f"{name}.yaml", backends=[backend], metrics=[metric])
            run_inline(RunOptions(config=str(file), run_id=name, store=str(tmp_path / "store")))
            return RunReader.open(Locations.at(str(tmp_path / "store")), name)

        new, old = run("new", "float32"), without_new_columns(run("old", "bfloat16"))
        (one_sided,) = why(new, old)
        (old_only,) = why(without_new_columns(run("older", "float32")), old)
        (templated,) = why(old, run("templated", "templated"))
    # Each fourth sum is a near tie, which only log-probabilities can tell.
    assert (one_sided.counts, old_only.counts) == ({"token_not_known": 10}, {"token_not_known": 10})
    said = " ".join(one_sided.lacking)
    assert "old stores no log-probabilities of tokens, so near ties are not known: set token_logprobs: 2" in said
    assert "new stores no log-probabilities" not in said
    assert "old stores no token ids of prompts, so only the number of tokens was compared" in said
    # The number of prompt tokens is in the responses.
    assert set(templated.counts) == {"prompt_tokens"}
