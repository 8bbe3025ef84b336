"""Every built-in suite scores replayed right answers 1 and wrong ones 0, through the whole pipeline."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench import made_rows
from bench.local_suites import LocalSuite, local_suite, missing_origins, suite_names
from gage_eval.config.load import load_config
from gage_eval.data.sample.table import rows_of
from gage_eval.observability.observer import Observers
from gage_eval.pipeline import stages
from gage_eval.pipeline.action import StageContext
from gage_eval.pipeline.plan import make_plan
from gage_eval.runs import RunOptions, run_inline
from gage_eval.store import Store

ORACLE = Path(__file__).parents[1] / "support" / "oracle.py"
SHARED = Path(__file__).parents[3] / "shared"
LETTERS = "ABCDEFGHIJ"
ROWS = 3
Sample = dict[str, Any]
Say = Callable[[Sample, bool], str]


def label(sample: Sample) -> str:
    return str(sample["label"])


def letter(sample: Sample, right: bool) -> str:
    return label(sample) if right else LETTERS[(LETTERS.index(label(sample)) + 1) % 3]


def text(sample: Sample, right: bool) -> str:
    return label(sample) if right else "nothing of the kind"


def boxed(sample: Sample, right: bool) -> str:
    return rf"So it is \boxed{{{label(sample) if right else label(sample) + '0'}}}."


def letters(sample: Sample, right: bool) -> str:
    return f"({') ('.join(sample['metadata']['letters'])})" if right else "(A) (B) (C) (D)"


def reference(sample: Sample, right: bool) -> str:
    answers: list[str] = sample["metadata"]["correct_answers" if right else "incorrect_answers"]
    return answers[0]


def mmmu(sample: Sample, right: bool) -> str:
    if sample["metadata"].get("option_map"):
        return letter(sample, right)
    return f"The answer is {label(sample)}." if right else "The answer is 99."


def solution(sample: Sample) -> str:
    code: str = sample["references"][0]["answer"][0]["text"]
    return code


def program(sample: Sample, right: bool) -> str:
    body = solution(sample) if right else "    return None\n"
    return f"Like this:\n```python\n{sample['metadata']['prompt']}{body}\n```"


def plain_program(sample: Sample, right: bool) -> str:
    wrong = f"def {sample['metadata']['entry_point']}(*_):\n    return object"
    return f"```python\n{solution(sample) if right else wrong}\n```"


def stopped_program(sample: Sample, right: bool) -> str:
    return f"{solution(sample) if right else 'def add(x): return None'}\n[DONE]\nMore."


def verdict(right: bool) -> str:
    """An answer that the judge of pairs prefers, or not."""
    return "This is the good one." if right else "This is the bad one."


RAG = ("faithfulness", "answer_relevance", "context_precision", "context_recall")
SAYS: dict[str, Say] = {
    "asr.asr": lambda sample, right: label(sample).capitalize() + "." if right else "",
    "video_mc.video_mc": letter,
    "doc_pages.doc_pages": text,
    "demo.multiple_choice": letter,
    "demo.short_answer": text,
    "demo.arithmetic": lambda sample, right: label(sample) if right else f"7{label(sample)}",
    "gsm8k.gsm8k": lambda sample, right: f"The answer is {label(sample)}{'' if right else '9'}.",
    "math500.math500": boxed,
    "mmlu.mmlu": letter,
    "mmlu_pro.mmlu_pro": lambda sample, right: f"I think the answer is ({letter(sample, right)}).",
    "cmmlu.cmmlu": letter,
    "agieval.english": letter,
    "agieval.chinese": letter,
    "agieval.chinese_several": letters,
    "agieval.english_cloze": boxed,
    "agieval.chinese_cloze": boxed,
    "piqa.piqa": lambda sample, right: label(sample) if right else "AB"[label(sample) == "A"],
    "arc.arc_challenge": lambda sample, right: f"The best answer is {option(sample, right)}",
    "arc.arc_easy": lambda sample, right: f"The best answer is {option(sample, right)}",
    "hellaswag.hellaswag": letter,
    "truthfulqa.mc1": letter,
    "truthfulqa.generation": reference,
    "bbh.direct": text,
    "bbh.cot": lambda sample, right: f"We think. So the answer is {text(sample, right)}.",
    "humaneval.humaneval": program,
    **{f"humaneval_plus.{name}": program for name in ("humaneval_plus", "humaneval")},
    **{f"mbpp_plus.{name}": plain_program for name in ("mbpp_plus", "mbpp")},
    "cruxeval.output": lambda sample, right: f"{solution(sample)}{'' if right else ' + [0]'}\n[/ANSWER]",
    "cruxeval.input": lambda sample, right: f"[ANSWER]\n{solution(sample) if right else 'assert f() == 1'}\n[/ANSWER]",
    **dict.fromkeys(("mbpp.mbpp", "mbpp_sanitized.mbpp_sanitized"), stopped_program),
    "ifeval.ifeval": lambda sample, right: "Nothing here." if right else "Here, there, everywhere.",
    "mmmu_pro.standard": lambda sample, right: f"It is clear.\nAnswer: {letter(sample, right)}",
    "mmmu_pro.vision": lambda sample, right: f"It is clear.\nAnswer: {letter(sample, right)}",
    "docvqa.docvqa": lambda sample, right: (
        f"<think>Hm.</think>{sample['metadata']['answers'][-1]}" if right else "nothing of the kind"
    ),
    "mt_bench.turn_1": lambda sample, right: "Something.",
    "mt_bench.turn_2": lambda sample, right: "Something.",
    "local_judge.multiple_choice": lambda sample, right: "I like the second one.",
    **{f"mt_bench_panel.turn_{turn}": lambda sample, right: "Something." for turn in (1, 2)},
    **{f"mt_bench_pairs.turn_{turn}": lambda sample, right: verdict(right) for turn in (1, 2)},
    "arena_hard.arena_hard": lambda sample, right: verdict(right),
    "alpaca_eval.alpaca_eval": lambda sample, right: verdict(right),
    "judge_bench.judge_bench": lambda sample, right: verdict(right),
    **{f"rag.{name}": lambda sample, right: "It is so." for name in RAG},
}
JUDGES: dict[str, Say] = {
    **dict.fromkeys(("mt_bench", "mt_bench_panel"), lambda sample, right: f"Well. Rating: [[{10 if right else 0}]]"),
    "rag": lambda sample, right: f"It says so.\n**SCORE: {3 * right}/3**",
    "local_judge": lambda sample, right: f"ANSWER: {letter(sample, right)}\nSCORE: {float(right)}",
}
# The share of right answers is not each number's best value: a rating is out of ten, and a Brier score is best at 0.
BEST = {"rating": 10.0, "wer": 0.0, "cer": 0.0, "brier": 0.0, "first_place": 0.5}
WORST = {"wer": 1.0, "cer": 1.0, "brier": 2.0, "first_place": 0.5, "consistent": 1.0}
# Similarities of TruthfulQA that say how close an answer is, not whether it is right.
DEGREES = ("_max", "_diff", "bleu_acc", "rouge2_acc")


def option(sample: Sample, right: bool) -> str:
    others = [entry["id"] for entry in sample["options"] if entry["id"] != label(sample)]
    return label(sample) if right else str(others[0])


def likely(sample: Sample, right: bool) -> list[int]:
    """Positions of the candidates that are likely."""
    gold = [reference["answer"][0]["text"] for reference in sample["references"]]
    ids = [entry["id"] for entry in sample["options"]]
    right_ones = [place for place, name in enumerate(ids) if name in gold]
    return right_ones if right else [next(place for place in range(len(ids)) if place not in right_ones)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("suites")


@pytest.fixture(scope="module")
def image(folder: Path) -> str:
    pictures = pytest.importorskip("support.pictures", reason="needs the extra media", exc_type=ImportError)
    pictures.write_image(folder / "page.png")
    return "page.png"


def write_config(suite: LocalSuite, folder: Path, file: Path) -> None:
    """The suite as a config: a backend for each task, with the answers of that task's samples in ``folder``."""
    config: dict[str, Any] = json.loads(json.dumps(suite.definition))
    for section in ("backends", "role_adapters"):
        config.setdefault(section, [])
    config["backends"].clear()
    judges = [adapter for adapter in config["role_adapters"] if adapter["role_type"] == "judge_model"]
    config["role_adapters"] = judges
    for judge in judges:
        judge["backend_id"] = "judge"
    if judges:
        is_of_pairs = any("against" in task for task in config["tasks"])
        config["backends"].append(PAIR_JUDGE if is_of_pairs else _replay("judge", folder / "judge.jsonl"))
    for task in config["tasks"]:
        name = task["task_id"]
        if "likelihood" in task.get("mode", ""):
            backend = {"backend_id": name, "type": f"{ORACLE}:Oracle", "config": {"path": str(folder / f"{name}.json")}}
        else:
            backend = _replay(name, folder / f"{name}.jsonl")
        config["backends"].append(backend)
        capabilities = ["images"] if suite.needs & {"images", "audio"} else []
        adapter = {"adapter_id": f"dut_{name}", "role_type": "dut_model", "backend_id": name}
        config["role_adapters"].append({**adapter, "capabilities": capabilities})
        task |= {"adapter_id": f"dut_{name}", "max_samples": ROWS}
    for dataset in config["datasets"]:
        path = dataset["params"].get("path")
        if isinstance(path, str):
            dataset["params"]["path"] = str(suite.base_dir / path)
    file.write_text(yaml.safe_dump(config, allow_unicode=True, sort_keys=False), encoding="utf-8")


# The judge of pairs says which place the good answer has, or that the bad one does not have.
PAIR_JUDGE = {
    "backend_id": "judge",
    "type": "custom_script",
    "config": {"file_path": str(ORACLE.with_name("pair_judge.py")), "class_name": "PairJudge"},
}


def _replay(name: str, file: Path) -> dict[str, Any]:
    config = {"path": str(file), "answer_field": "answer"}
    return {"backend_id": name, "type": "replay", "config": config}


def write_answers(suite: LocalSuite, samples: dict[str, list[Sample]], folder: Path, *, right: bool) -> None:
    """The files that the backends read."""
    verdicts: dict[str, dict[str, Any]] = {}
    for task in suite.tasks():
        name = task["task_id"]
        known = samples.get(name, [])
        if "likelihood" in task.get("mode", ""):
            places = {sample["id"]: likely(sample, right) for sample in known}
            (folder / f"{name}.json").write_text(json.dumps(places), encoding="utf-8")
            continue
        say = SAYS.get(f"{suite.name}.{name}", mmmu)
        rows = [{"id": sample["id"], "answer": say(sample, right)} for sample in known]
        if suite.name in JUDGES:
            for sample in known:
                verdicts[sample["id"]] = {"id": sample["id"], "answer": JUDGES[suite.name](sample, right)}
        _write_rows(folder / f"{name}.jsonl", rows)
    _write_rows(folder / "judge.jsonl", list(verdicts.values()))


def _write_rows(file: Path, rows: list[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows or [{"id": "nobody", "answer": ""}]), "utf-8")


def run(config: Path, run_id: str) -> Any:
    return run_inline(RunOptions(config=str(config), store=str(config.parent / "store"), run_id=run_id))


def samples_of(config: Path) -> dict[str, list[Sample]]:
    """The samples of each task; nothing is asked."""
    store = Store.open(str(config.parent / "store"))
    env = StageContext(store, None, Observers(), "the-run")
    columns = ["id", "label", "references", "options", "metadata"]
    samples = {}
    for task in make_plan(load_config(config)).tasks:
        made = stages.standardize(env, task.standardize, raw=stages.load(env, task.load))
        samples[task.task_id] = list(rows_of(store.artifact(made.outputs["samples"]).table(), columns))
    return samples


@pytest.mark.parametrize("name", suite_names())
def test_right_answers_score_one_and_wrong_ones_zero(name: str, folder: Path, image: str) -> None:
    if name in ("bfcl_ast", "bfcl_multi_turn"):
        pytest.skip("its data are of a package that is not installed here: tests/runs/test_bfcl.py")
    if missing := missing_origins(name, SHARED):
        pytest.skip(f"no data of {', '.join(missing)} in ../shared/data")
    suite = local_suite(name, SHARED, folder, image)
    if name == "mt_bench_pairs":
        # The published records have no other answers; the reference answers stand for them.
        params = suite.definition["datasets"][0]["params"]
        params["filter"] = {"category": "math"}
        params["preprocess_kwargs"]["fields"]["metadata.baseline"] = "gpt4.choices.0.turns"
    if name == "ifeval":
        # What a rule checks cannot be written for real prompts without a model.
        rows = made_rows.write_rows(folder / "ifeval.jsonl", made_rows.ifeval())
        suite.definition["datasets"][0]["params"]["path"] = str(rows)
    place = folder / f"{name}-runs"
    place.mkdir()
    write_answers(suite, {}, place, right=True)
    file = place / "config.yaml"
    write_config(suite, place, file)
    samples = samples_of(file)
    for right in (True, False):
        answers = place / str(right)
        answers.mkdir()
        write_answers(suite, samples, answers, right=right)
        write_config(suite, answers, file)
        summary = run(file, f"right-{right}").summary
        off = []
        for task in summary.tasks:
            assert task.metrics
            for metric in task.metrics:
                if metric.value_key.endswith(DEGREES):
                    continue
                wanted = BEST.get(metric.value_key, 1.0) if right else WORST.get(metric.value_key, 0.0)
                if name == "mt_bench_panel":
                    wanted *= 10
                if metric.value != pytest.approx(wanted) or metric.n != len(samples[task.task_id]):
                    off.append((task.task_id, metric.name, metric.value_key, metric.value, metric.n))
        assert off == []
        own_scale = {*BEST, *WORST}
        shares = (
            []
            if name == "mt_bench_panel"
            else [metric for group in summary.groups for metric in group.metrics if metric.value_key not in own_scale]
        )
        assert {round(share.macro.value, 9) for share in shares if share.macro.value is not None} <= {float(right)}
