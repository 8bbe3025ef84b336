"""Pairs: the other answer comes from another run, another model or the sample, and a pair without one is not asked."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from support.command import Command, command

from tests.support.workspace import write_config, write_rows

JUDGE = '''
from pathlib import Path


class Longer:
    """Prefers the longer answer."""

    def generate(self, request):
        sample, first, second = request["messages"][-1]["content"].split("|")
        with Path("asked.txt").open("a") as file:
            file.write(f"{sample}:{first}/{second} ")
        return "VERDICT: " + ("tie" if len(first) == len(second) else "A" if len(first) > len(second) else "B")
'''
PROMPT = "{{ sample.id }}|{{ pair.a.answer }}|{{ pair.b.answer }}"


@pytest.fixture
def gage(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    write_rows(tmp_path)
    (tmp_path / "judge.py").write_text(JUDGE)
    return command(tmp_path, capsys, monkeypatch)


def _write(folder: Path, answer: str, against: Any, prompt: str = PROMPT, **task: Any) -> None:
    def backend(name: str, type_: str, **config: Any) -> dict[str, Any]:
        return {"backend_id": name, "type": type_, "config": config}

    write_config(
        folder,
        backends=[
            backend("model", "dummy", answer=answer),
            backend("short", "dummy", answer="yes"),
            backend("judge", "custom_script", file_path="judge.py", class_name="Longer", max_concurrency=1),
        ],
        role_adapters=[
            {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model"},
            {"adapter_id": "other", "role_type": "support", "backend_id": "short"},
            {"adapter_id": "judge", "role_type": "judge_model", "backend_id": "judge", "prompt_id": "pair"},
        ],
        prompts=[{"prompt_id": "pair", "template": prompt}],
        tasks=[{"task_id": "sums", "dataset_id": "sums", "both_orders": True, "against": against, **task}],
        metrics=["pairwise_win"],
    )


def _asked(folder: Path) -> list[str]:
    file = folder / "asked.txt"
    pairs = sorted(file.read_text().split()) if file.exists() else []
    file.write_text("")
    return pairs


def _win(folder: Path, run_id: str) -> tuple[float, int]:
    (file,) = folder.rglob(f"{run_id}/summary.json")
    metric = next(m for m in orjson.loads(file.read_bytes())["metrics"] if m["value_key"] == "win")
    return metric["raw_values"]["win"], metric["n"]


def test_another_models_answers_and_another_runs_are_compared(tmp_path: Path, gage: Command) -> None:
    _write(tmp_path, "longer", {"adapter": "other"})
    ended = gage("run", "mine.yaml", "--run-id", "models", "--set", "tasks.sums.max_samples=4")
    assert ended.code == 0, ended.err
    assert _asked(tmp_path) == [f"s{row}:{pair}" for row in range(4) for pair in ("longer/yes", "yes/longer")]
    assert _win(tmp_path, "models") == (1.0, 4)
    # The samples in another order; two of them have no answer in the other run, and are not asked about.
    _write(tmp_path, "no", {"run": "models"}, shuffle=True, max_unscored_share=0.5)
    ended = gage("run", "mine.yaml", "--run-id", "runs")
    assert ended.code == 0, ended.err
    assert _asked(tmp_path) == [f"s{row}:{pair}" for row in range(4) for pair in ("longer/no", "no/longer")]
    assert _win(tmp_path, "runs") == (0.0, 4)
    assert "no other answer" in gage("show", "runs", "--sample", "s5").out
    # The same answers are no reason to ask again; those of another run are.
    assert gage("run", "mine.yaml", "--run-id", "again").code == 0
    assert _asked(tmp_path) == []
    assert gage("run", "mine.yaml", "--set", "tasks.sums.against.run=runs").code == 0
    assert _asked(tmp_path) == [f"s{row}:no/no" for row in range(6)]


def test_the_other_answer_may_be_a_field_and_so_may_the_first(tmp_path: Path, gage: Command) -> None:
    rows = [
        {"id": f"s{row}", "question": "?", "chosen": "longest", "rejected": ["a", "bad"][: row + 1]} for row in (0, 1)
    ]
    (tmp_path / "rows.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    _write(tmp_path, "", {"field": "metadata.rejected"}, prompt=PROMPT + "{{ (pair.b.turns or []) | length }}")
    replayed = '{"type": "replay", "config": {"match": "field", "sample_field": "metadata.chosen"}}'
    fields = "datasets.0.params.preprocess_kwargs.fields={metadata.chosen: chosen, metadata.rejected: rejected}"
    ended = gage("run", "mine.yaml", "--set", f"role_adapters.dut.backend={replayed}", "--set", fields)
    assert ended.code == 0, ended.err
    assert _asked(tmp_path) == ["s0:a/longest0", "s0:longest/a1", "s1:bad/longest0", "s1:longest/bad2"]


@pytest.mark.parametrize(
    ("against", "prompt", "said"),
    [
        ({"run": "nowhere"}, PROMPT, "no run 'nowhere'"),
        ({"adapter": "othr"}, PROMPT, "Did you mean 'other'"),
        ({"field": "metadata.baseline"}, PROMPT, "there is no pair, because the field 'metadata.baseline'"),
        ({"field": "model_output.answer"}, PROMPT, "is a field of the sample"),
        ({"field": "label", "run": "x"}, PROMPT, "give one of"),
        ({"field": "label", "task": "x"}, PROMPT, "give 'run', too"),
        ({"field": "label"}, "{{ model_answer }} {{ prompt_params.swapped }}", "shows no pair"),
        (None, PROMPT, "say against what"),
    ],
)
def test_pairs_that_cannot_be_made_are_refused_before_anything_is_asked(
    tmp_path: Path, gage: Command, against: Any, prompt: str, said: str
) -> None:
    _write(tmp_path, "longer", against, prompt=prompt)
    ended = gage("run", "mine.yaml")
    assert ended.code == 2
    assert said in ended.err
    assert _asked(tmp_path) == []
