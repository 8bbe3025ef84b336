"""What is changed in a real run of the small model is the cause of the scores that it moves."""

from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from real_engines import config_of
from support.tied_model import tied_model

from gage_eval.regression.why import Cause, TaskWhy, why
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.options import Locations
from gage_eval.runs.results.reading import RunReader

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

COUNT = 24
# Of the flips that a planted change causes, so many have it as their cause.
ENOUGH = 0.95
MOSTLY = 0.75
THINGS = ("river", "stone", "school", "winter", "bread", "music", "garden", "ship")
ASKED = ("Describe a {}.", "Write a sentence about a {}.", "Name two things about a {}.")
PARAMS = {"temperature": 0, "max_new_tokens": 24, "token_logprobs": 2}
DUT = {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model"}


class Lab:
    """Runs of the small model in which one thing is changed, on data whose golds are the answers of the first run."""

    def __init__(self, folder: Path, engine: str = "llama_cpp") -> None:
        self._folder, self._engine = folder, engine
        self.golds = ["?"] * COUNT
        self.write()
        rows = [row for part in [self.run("first").task()] for row in part.rows()]
        self.golds = [row.responses[0].get("answer") or "" for row in rows]
        self.write()
        self.base = self.run("base")

    def write(self, swapped: int = 0) -> None:
        """The rows; the golds of the first ones are swapped."""
        questions = [text.format(thing) for thing in THINGS for text in ASKED]
        golds = ["something else"] * swapped + self.golds[swapped:]
        rows = [
            {"id": f"s{n}", "question": question, "answer": gold}
            for n, (question, gold) in enumerate(zip(questions, golds, strict=True))
        ]
        (self._folder / "rows.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))

    def run(self, run_id: str, dtype: str = "float32", params: dict[str, Any] | None = None, **more: Any) -> RunReader:
        defaults = {"default_params": {**PARAMS, **(params or {})}}
        small = {"model": "smollm2-135m", "n_ctx": 1024, "n_parallel": 1, **defaults}
        model = small if self._engine == "llama_cpp" else config_of(self._engine, dtype, **defaults)
        config = {
            "metadata": {"name": "planted"},
            "datasets": [{"dataset_id": "questions", "params": {"path": "rows.jsonl"}}],
            "backends": [{"backend_id": "model", "type": self._engine, "config": model}, *more.pop("judges", ())],
            "metrics": ["exact_match"],
            **more,
        }
        file = self._folder / f"{run_id}.yaml"
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        store = str(self._folder / "store")
        run_inline(RunOptions(config=str(file), run_id=run_id, store=store))
        return RunReader.open(Locations.at(store), run_id)

    def moved(self, other: RunReader, base: RunReader | None = None) -> TaskWhy:
        (result,) = why(base or self.base, other)
        assert result.flips, "the change has moved no score"
        return result


def share(result: TaskWhy, *causes: Cause) -> float:
    return sum(result.counts.get(cause, 0) for cause in causes) / len(result.flips)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(tmp_path_factory.mktemp("planted"))


def test_a_template(lab: Lab) -> None:
    prompts = [{"prompt_id": "brief", "template": "Be brief. {{ sample.messages[-1].content }}"}]
    adapters = [{**DUT, "prompt_id": "brief"}]
    assert share(lab.moved(lab.run("template", prompts=prompts, role_adapters=adapters)), "prompt") >= ENOUGH


def test_a_data_type_is_a_label_of_every_flip_and_its_first_token_tells_the_cause(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "transformers")
    result = lab.moved(lab.run("dtype", "bfloat16"))
    told = share(result, "numerical", "behavioural")
    # Two tokens of each place are logged. On some processors a third one is so near that it comes first.
    third = share(result, "token_not_known")
    assert told + third >= ENOUGH
    assert told >= MOSTLY
    assert sum("dtype" in flip.labels for flip in result.flips) >= ENOUGH * len(result.flips)
    assert not result.lacking


def test_a_stop_string(lab: Lab) -> None:
    assert share(lab.moved(lab.run("stop", params={"stop": [" the"]})), "sampling") >= ENOUGH


def test_a_filter(lab: Lab) -> None:
    steps = [{"regex": {"pattern": r"^(\w+)"}}]
    metrics = [{"metric_id": "exact_match", "filters": [{"name": "first-word", "steps": steps}]}]
    assert share(lab.moved(lab.run("filter", metrics=metrics)), "extraction") >= ENOUGH


def test_a_gold(lab: Lab) -> None:
    lab.write(swapped=5)
    try:
        result = lab.moved(lab.run("gold"))
    finally:
        lab.write()
    assert len(result.flips) == 5
    assert share(result, "sample") >= ENOUGH


def test_the_prompt_of_a_judge(lab: Lab) -> None:
    with tied_model() as url:

        def judged(run_id: str, template: str) -> RunReader:
            rater = {"base_url": url, "model": "judge", "default_params": {"temperature": 0}}
            adapter = {"adapter_id": "judge", "role_type": "judge_model", "backend_id": "rater", "prompt_id": "rate"}
            return lab.run(
                run_id,
                judges=[{"backend_id": "rater", "type": "openai_http", "config": rater}],
                prompts=[{"prompt_id": "rate", "template": template}],
                role_adapters=[DUT, adapter],
                metrics=["judge_rating"],
            )

        before = judged("rated", "Rate {{ model_answer }}")
        result = lab.moved(judged("strict", "Be strict: rate {{ model_answer }}"), before)
    assert share(result, "judge") >= ENOUGH
