"""Promises of `gage why`: a planted change is the cause of the scores that it moved, and what is not known is said."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from gage_eval.base.errors import InputError
from gage_eval.regression.why import TaskWhy, why
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.options import Locations
from gage_eval.runs.results.reading import RunReader
from tests.support.tied_model import tied_model
from tests.support.workspace import write_config

COUNT = 60
LAST = [{"regex": {"pattern": r"(\w+)\.?$"}}]
Metric = dict[str, Any]
METRIC: Metric = {"metric_id": "exact_match", "filters": [{"name": "read", "steps": LAST}]}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with tied_model() as base_url:
        yield base_url


class Lab:
    """Runs of one config with one thing changed in each."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self._url = folder, url
        self.write_rows()

    def write_rows(self, *swapped: int) -> None:
        rows = [
            {"id": f"s{n}", "question": f"{n} + 1 = ?", "answer": "no" if n in swapped else str(n + 1)}
            for n in range(COUNT)
        ]
        (self.folder / "rows.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))

    def backend(self, model: str, backend_id: str = "model", **params: Any) -> dict[str, Any]:
        params_sent = {"temperature": 0, "max_new_tokens": 16, "token_logprobs": 2, **params}
        config = {"base_url": self._url, "model": model, "default_params": params_sent}
        return {"backend_id": backend_id, "type": "openai_http", "config": config}

    def run(
        self, run_id: str, model: str = "float32", params: dict[str, Any] | None = None, **changes: Any
    ) -> RunReader:
        sections = {"backends": [self.backend(model, **(params or {}))], "metrics": [METRIC], **changes}
        file = write_config(self.folder, f"{run_id}.yaml", **sections)
        store = str(self.folder / "store")
        run_inline(RunOptions(config=str(file), run_id=run_id, store=store))
        return RunReader.open(Locations.at(store), run_id)


@pytest.fixture
def lab(tmp_path: Path, url: str) -> Lab:
    return Lab(tmp_path, url)


def causes(a: RunReader, b: RunReader) -> TaskWhy:
    (result,) = why(a, b)
    return result


def briefly(lab: Lab) -> dict[str, Any]:
    """A prompt with one sentence more."""
    return {
        "prompts": [{"prompt_id": "brief", "template": "Be brief. {{ sample.messages[-1].content }}"}],
        "role_adapters": [{"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model", "prompt_id": "brief"}],
    }


def test_a_run_against_itself_has_no_flip(lab: Lab) -> None:
    a = lab.run("a")
    result = causes(a, a)
    assert (result.answers, result.flips, result.lacking) == (COUNT, (), ())


def test_a_template_is_the_prompt(lab: Lab) -> None:
    result = causes(lab.run("a"), lab.run("b", **briefly(lab)))
    assert result.counts == {"prompt": COUNT // 5}
    assert all("messages" in flip.detail for flip in result.flips)


def test_a_chat_template_of_the_server_is_the_tokens_of_the_prompt(lab: Lab) -> None:
    result = causes(lab.run("a"), lab.run("b", "templated"))
    assert result.counts == {"prompt_tokens": COUNT // 3}


def test_another_data_type_is_a_label_and_its_flips_are_near_ties(lab: Lab) -> None:
    result = causes(lab.run("a"), lab.run("b", "bfloat16"))
    assert result.counts == {"numerical": COUNT // 4}
    assert [difference.b for difference in result.also_differing if difference.path.endswith("config.model")] == [
        "bfloat16"
    ]
    assert all("model" in flip.labels for flip in result.flips)
    assert "0.04 nats apart" in result.flips[0].detail


def test_another_model_is_another_behaviour_where_no_tie_was_near(lab: Lab) -> None:
    result = causes(lab.run("a"), lab.run("b", "tuned"))
    assert result.counts == {"behavioural": COUNT // 2}


def test_without_log_probabilities_the_near_ties_are_not_known_and_it_says_so(lab: Lab) -> None:
    bare = {"token_logprobs": None}
    result = causes(lab.run("a", params=bare), lab.run("b", "bfloat16", params=bare))
    assert result.counts == {"token_not_known": COUNT // 4}
    assert any("a stores no log-probabilities" in sentence for sentence in result.lacking)


def test_a_drawn_token_is_not_called_a_near_tie(lab: Lab) -> None:
    warm = {"temperature": 1}
    assert causes(lab.run("a", params=warm), lab.run("b", "tuned", params=warm)).counts == {"drawn": COUNT // 2}


def test_a_stop_string_is_the_sampling(lab: Lab) -> None:
    result = causes(lab.run("a"), lab.run("b", params={"stop": [" sum"]}))
    assert result.counts == {"sampling": COUNT}
    assert result.flips[0].detail == 'stop: nothing → [" sum"]'


def test_an_answer_that_was_cut_is_truncated(lab: Lab) -> None:
    result = causes(lab.run("a"), lab.run("b", "short"))
    assert result.counts == {"truncation": COUNT}
    assert "ok → truncated" in result.flips[0].labels


def test_a_filter_is_the_extraction(lab: Lab) -> None:
    other = {"metric_id": "exact_match", "filters": [{"name": "read", "steps": [{"regex": {"pattern": "(no)"}}]}]}
    result = causes(lab.run("a", "bfloat16"), lab.run("b", "bfloat16", metrics=[other]))
    assert result.counts == {"extraction": COUNT - COUNT // 4}


def test_a_gold_is_the_sample(lab: Lab) -> None:
    before = lab.run("a")
    lab.write_rows(3, 8, 21)
    result = causes(before, lab.run("b"))
    assert result.counts == {"sample": 3}
    assert {flip.sample_id for flip in result.flips} == {"s3", "s8", "s21"}


def test_the_prompt_of_a_judge_is_the_judge(lab: Lab) -> None:
    def judged(template: str) -> dict[str, Any]:
        return {
            "backends": [lab.backend("float32"), lab.backend("judge", "rater")],
            "prompts": [{"prompt_id": "rate", "template": template}],
            "role_adapters": [
                {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model"},
                {"adapter_id": "judge", "role_type": "judge_model", "backend_id": "rater", "prompt_id": "rate"},
            ],
            "metrics": ["judge_rating"],
        }

    result = causes(
        lab.run("a", **judged("Rate {{ model_answer }}")), lab.run("b", **judged("Be strict: rate {{ model_answer }}"))
    )
    assert result.counts == {"judge": COUNT}
    assert "prompt" in result.flips[0].detail


def test_the_first_of_several_changes_is_the_cause_and_the_numbers_add_up(lab: Lab) -> None:
    before = lab.run("a")
    lab.write_rows(4, 8)
    result = causes(before, lab.run("b", "bfloat16"))
    # s4 and s8 are near ties too: with other golds, "no" is right there.
    changed = Counter(flip.cause for flip in result.flips)
    assert changed == {"numerical": COUNT // 4 - 2}
    record = result.as_record()
    assert sum(record["counts"].values()) == len(record["flips"])
    assert sum(sum(result.moved(cause)) for cause in result.counts) == len(result.flips)


def test_a_recorded_run_is_explained_as_far_as_it_goes_and_says_what_it_lacks(lab: Lab) -> None:
    def recorded(run_id: str, wrong: int) -> RunReader:
        answers = [{"id": f"s{n}", "output": "no" if n < wrong else str(n + 1)} for n in range(COUNT)]
        (lab.folder / f"{run_id}.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in answers))
        config = {"path": f"{run_id}.jsonl", "answer_field": "output"}
        return lab.run(run_id, backends=[{"backend_id": "model", "type": "replay", "config": config}])

    result = causes(recorded("a", 2), recorded("b", 5))
    assert result.counts == {"token_not_known": 3}
    said = " ".join(result.lacking)
    for words in ("no log-probabilities", "no sampling parameters", "no number of prompt tokens"):
        assert words in said


def test_the_tokens_are_in_the_telemetry_and_not_in_the_content_of_the_answers(lab: Lab) -> None:
    task = lab.run("a").task()
    row = task.find("s4")
    assert row is not None
    assert row.telemetry[0]["tokens"][3] == {
        "token": "5", "logprob": -0.7, "other": "no", "other_logprob": pytest.approx(-0.74),
    }  # fmt: skip
    assert "logprobs" not in row.responses[0]
    bare = lab.run("b", params={"token_logprobs": None}).task()
    keys = [set(table["response_key"].to_pylist()) for table in (task.response_table(), bare.response_table())]
    assert not keys[0] & keys[1], "asking for log-probabilities is another question"


def test_a_metric_that_neither_run_has_is_refused_by_name(lab: Lab) -> None:
    a = lab.run("a")
    with pytest.raises(InputError, match="has no metric 'bleu'"):
        why(a, a, metric="bleu")
