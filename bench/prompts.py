"""``python -m bench.prompts``: the prompts of the built-in suites, ours and the lm-eval harness's, on ten rows.

Writes hashes of what the harness sends, changed as `TASKS` declares, into ``tests/suites/lm_eval_prompts.json``. A
test compares our prompts with them. Also writes the page ``docs/suites-lm-eval.md``. The rows are those next to the
checkout; rows of datasets that are not there are made.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from bench.local_suites import LocalSuite, local_suite, prepared_requests, records_of
from bench.process import HERE, BenchFailed, environment
from gage_eval.base.canonical import canonical_json, sha256_hex

ROOT = HERE.parent
GOLDEN = ROOT / "tests" / "suites" / "lm_eval_prompts.json"
PAGE = ROOT / "docs" / "suites-lm-eval.md"
ROWS = 10
Record: TypeAlias = dict[str, Any]
# ``{"context", "choices"}`` of a text, ``{"messages", "choices"}`` of a chat.
Prompt: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """Where our prompt is not the harness's, and why.

    Attributes:
        why: a sentence for the page.
        ours: the harness's prompt → ours.
    """

    why: str
    ours: Callable[[Prompt], Prompt]


@dataclass(frozen=True)
class Task:
    """A task of a suite, and the harness's task with the same prompts.

    Attributes:
        suite: and `task`: ours.
        theirs: its file below ``lm_eval/tasks``.
        split: which split of the harness the rows are.
        row: our record → theirs.
        num_fewshot: where it is not in their file.
        pool: their split of the examples, where they come from our pool.
        sampled: our examples stand in for those in their file.
        chat: as chat messages, else as text.
        multiturn: examples are turns.
        differences: what is not the same.
    """

    suite: str
    task: str
    theirs: str
    split: str = "test"
    row: Callable[[Record], Record] = dict
    num_fewshot: int | None = None
    pool: str | None = None
    sampled: bool = False
    chat: bool = False
    multiturn: bool = False
    differences: Sequence[Difference] = ()

    @property
    def name(self) -> str:
        return f"{self.suite}/{self.task}"


def _each_message(role: str, change: Callable[[str], str]) -> Callable[[Prompt], Prompt]:
    def changed(prompt: Prompt) -> Prompt:
        messages = [
            {**message, "content": change(message["content"])} if message["role"] == role else message
            for message in prompt["messages"]
        ]
        return {**prompt, "messages": messages}

    return changed


def _last_user(change: Callable[[str], str]) -> Callable[[Prompt], Prompt]:
    def changed(prompt: Prompt) -> Prompt:
        users = [place for place, message in enumerate(prompt["messages"]) if message["role"] == "user"]
        last = users[-1]
        messages = [dict(message) for message in prompt["messages"][: last + 1]]
        messages[last]["content"] = change(messages[last]["content"])
        return {**prompt, "messages": messages}

    return changed


_NO_PREFIX = Difference(
    "The start of the answer that the harness puts into the assistant's mouth is left out, because only some endpoints "
    "take it.",
    lambda prompt: (
        {**prompt, "messages": prompt["messages"][:-1], "after": ""}
        if prompt["messages"][-1]["role"] == "assistant"
        else {**prompt, "after": ""}
    ),
)
_SYSTEM = Difference(
    "The system message ends without the line ends that the harness has there.",
    _each_message("system", str.rstrip),
)


def _mmlu(record: Record) -> Record:
    return {
        "question": record["question"],
        "choices": [record[letter] for letter in "ABCD"],
        "answer": "ABCD".index(record["answer"]),
    }


def _truthfulqa(record: Record) -> Record:
    def listed(targets: Mapping[str, int]) -> Record:
        return {"choices": list(targets), "labels": list(targets.values())}

    return {"question": record["question"], **{name: listed(record[name]) for name in ("mc1_targets", "mc2_targets")}}


def _generation(record: Record) -> Record:
    return {
        "question": record["Question"],
        "correct_answers": record["Correct Answers"].split(";"),
        "incorrect_answers": record["Incorrect Answers"].split(";"),
    }


def _sorted_choices(prompt: Prompt) -> Prompt:
    return {**prompt, "choices": sorted(prompt["choices"])}


_ORDER = Difference(
    "The candidates are compared in an order drawn once, because the published lists have the true ones first. The "
    "score is the same.",
    _sorted_choices,
)
_MATH = Difference(
    "The harness writes `Problem: …` and `Answer:`, as for base models. This suite asks for the answer in "
    "`\\boxed{}`, as the technical reports of chat models do.",
    _last_user(
        lambda text: (
            text.removeprefix("Problem: ").removesuffix("\nAnswer:") + "\n\nPut your final answer within \\boxed{}."
        )
    ),
)
_HUMANEVAL = Difference(
    "The function's start stands between blank lines and without a line end after the code block.",
    _last_user(lambda text: re.sub(r":\n```python\n(.*)\n```\n$", r":\n\n```python\n\1\n```", text, flags=re.DOTALL)),
)
_CMMLU = Difference(
    "The suite has the format of CMMLU's authors: `题目：` before the question and `答案是：` after it, where the "
    "harness has `答案：`.",
    _each_message("user", lambda text: "题目：" + text.removesuffix("答案：") + "答案是："),
)


def _numbered(text: str) -> str:
    if "ARC-Challenge 3:" not in text:
        return text
    return re.sub(r"\n([ABCD])\. ", lambda match: f"\n{'ABCD'.index(match[1]) + 1}. ", text)


_ARC_LINES = Difference(
    "The harness's file has `\\n` in single quotes, so its prompt shows a backslash and an n. Here they are line ends.",
    _last_user(lambda text: text.replace("\\n", "\n")),
)
_ARC_LABELS = Difference(
    "Options keep the dataset's labels: a few questions have 1 to 4, which the harness turns into letters.",
    _last_user(_numbered),
)
_MMMU = Difference(
    "The harness has blank lines between question, options and instruction. The authors' file has none there: in YAML "
    "a blank line inside quotes is one line end.",
    _last_user(lambda text: text.replace("\n\n", "\n")),
)

TASKS: Sequence[Task] = (
    Task("gsm8k", "gsm8k", "gsm8k/gsm8k-cot.yaml", chat=True),
    Task("math500", "math500", "hendrycks_math/hendrycks_math500.yaml", chat=True, differences=(_MATH,)),
    Task(
        "mmlu",
        "mmlu",
        "mmlu/generative/mmlu_abstract_algebra.yaml",
        row=_mmlu,
        num_fewshot=5,
        pool="dev",
        chat=True,
        multiturn=True,
        differences=(_SYSTEM,),
    ),
    Task("mmlu_likelihood", "mmlu", "mmlu/default/mmlu_abstract_algebra.yaml", row=_mmlu, num_fewshot=5, pool="dev"),
    Task(
        "mmlu_pro",
        "mmlu_pro",
        "mmlu_pro/mmlu_pro_law.yaml",
        pool="validation",
        chat=True,
        multiturn=True,
        differences=(_SYSTEM,),
    ),
    Task(
        "cmmlu",
        "cmmlu",
        "cmmlu/cmmlu_agronomy.yaml",
        num_fewshot=5,
        pool="dev",
        chat=True,
        multiturn=True,
        differences=(_SYSTEM, _CMMLU),
    ),
    Task("cmmlu_likelihood", "cmmlu", "cmmlu/cmmlu_agronomy.yaml", num_fewshot=5, pool="dev"),
    Task("piqa_likelihood", "piqa", "piqa/piqa.yaml", split="validation"),
    Task(
        "arc",
        "arc_challenge",
        "arc/arc_challenge_chat.yaml",
        chat=True,
        differences=(_NO_PREFIX, _ARC_LINES, _ARC_LABELS),
    ),
    Task("arc_likelihood", "arc_challenge", "arc/arc_challenge.yaml"),
    Task("arc_likelihood", "arc_easy", "arc/arc_easy.yaml"),
    Task("hellaswag_likelihood", "hellaswag", "hellaswag/hellaswag.yaml", split="validation"),
    Task("truthfulqa", "generation", "truthfulqa/truthfulqa_gen.yaml", split="validation", row=_generation, chat=True),
    Task(
        "truthfulqa_likelihood",
        "mc1",
        "truthfulqa/truthfulqa_mc1.yaml",
        split="validation",
        row=_truthfulqa,
        differences=(_ORDER,),
    ),
    Task(
        "truthfulqa_likelihood",
        "mc2",
        "truthfulqa/truthfulqa_mc2.yaml",
        split="validation",
        row=_truthfulqa,
        differences=(_ORDER,),
    ),
    Task("bbh", "direct", "bbh/fewshot/boolean_expressions.yaml", sampled=True, chat=True, differences=(_SYSTEM,)),
    Task("bbh", "cot", "bbh/cot_fewshot/boolean_expressions.yaml", sampled=True, chat=True, differences=(_SYSTEM,)),
    Task("ifeval", "ifeval", "ifeval/ifeval.yaml", split="train", chat=True),
    Task(
        "humaneval",
        "humaneval",
        "humaneval/humaneval_instruct.yaml",
        chat=True,
        differences=(_NO_PREFIX, _HUMANEVAL),
    ),
    Task("mbpp", "mbpp", "mbpp/mbpp.yaml", sampled=True),
    Task("mmmu", "Art", "mmmu/mmmu_art.yaml", split="validation", chat=True, differences=(_MMMU,)),
)
NOT_COMPARED: Mapping[str, str] = {
    "agieval": "The harness takes its prompts ready-made from another repository, so there is nothing to render.",
    "agieval_likelihood": "The harness takes its prompts ready-made from another repository, so there is nothing to "
    "render.",
    "piqa": "The harness has no chat form of this task.",
    "hellaswag": "The harness has no chat form of this task.",
    "demo": "The suite is ours.",
    "local_judge": "The suite is ours.",
    "multi_choice_likelihood": "The suite is ours.",
    "rag": "The suite is ours.",
    "humaneval_plus": "The suite asks as evalplus's own runner does, the harness as for the benchmark that it extends.",
    "mbpp_plus": "The suite asks as evalplus's own runner does, the harness as for the benchmark that it extends.",
    "mbpp_sanitized": "The harness has no such task.",
    "mmmu_pro": "The harness has no such task.",
    "docvqa": "The harness has no such task.",
    "mt_bench": "The harness has no such task.",
    "mt_bench_pairs": "The harness has no such task.",
    "mt_bench_panel": "The harness has no such task.",
    "arena_hard": "The harness has no such task.",
    "alpaca_eval": "The harness has no such task.",
    "asr": "The harness has no such task.",
    "video_mc": "The suite is ours.",
    "doc_pages": "The suite is ours.",
    "text_to_image": "The harness has no such task.",
    "bfcl_ast": "The harness has no such task.",
    "bfcl_multi_turn": "The harness has no such task.",
    "judge_bench": "Only a judge is asked, and the harness has no such task.",
    "cruxeval": "The harness has no such task.",
}


def our_prompts(task: Task, suite: LocalSuite, folder: Path) -> list[Prompt]:
    """What we would ask for the first rows of a task."""
    config = json.loads(json.dumps(suite.definition))
    (chosen,) = [entry for entry in config["tasks"] if entry["task_id"] == task.task]
    likelihood = chosen.get("mode") == "likelihood"
    # Any metric will do: nothing is scored.
    metrics = ["acc" if likelihood else "text_length"]
    chosen |= {"shuffle": False, "max_samples": ROWS, "adapter_id": "dut", "metric_overrides": metrics}
    config |= {
        "tasks": [chosen],
        "groups": [],
        "role_adapters": [
            {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "none", "capabilities": ["images"]}
        ],
        "prompts": [],
        "backends": [
            {"backend_id": "none", "type": "vllm", "config": {"base_url": "http://127.0.0.1:9/v1", "model": "m"}}
        ],
    }
    file = folder / "ours.yaml"
    file.write_text(yaml.safe_dump(config, allow_unicode=True), encoding="utf-8")
    (rows,) = prepared_requests(file, folder / "store").values()
    return [_ours(row, likelihood=likelihood, chat=task.chat) for row in rows]


def _ours(row: Mapping[str, Any], *, likelihood: bool, chat: bool) -> Prompt:
    if not chat:
        return {"context": row["prompt"], "choices": row["choices"] if likelihood else None}
    messages = [{"role": message["role"], "content": _flat(message["content"])} for message in row["messages"]]
    return {"messages": messages, "choices": None, "after": ""}


def _flat(content: Any) -> str:
    """Text with ``<image>`` where an image stands."""
    if isinstance(content, str):
        return content
    return "".join(part["text"] if part["type"] == "text" else "<image>" for part in content)


def comparable(prompt: Prompt, task: Task) -> Prompt:
    """Our prompt without what the differences say does not matter."""
    return _sorted_choices(prompt) if _ORDER in task.differences else prompt


def digest(prompt: Prompt) -> str:
    """What is stored of a prompt."""
    return sha256_hex(canonical_json(prompt))


def their_prompts(suites: Mapping[str, LocalSuite], python: str, folder: Path) -> Any:
    """The harness's prompts of all tasks."""
    tasks = []
    for number, task in enumerate(TASKS):
        suite = suites[task.suite]
        place = folder / f"docs{number}"
        rows, examples = records_of(suite, task.task, ROWS)
        docs = {task.split: [task.row(row) for row in rows]}
        if task.pool is not None:
            docs[task.pool] = [task.row(row) for row in examples]
        files = {}
        for split, items in docs.items():
            files[split] = place / f"{split}.jsonl"
            files[split].parent.mkdir(exist_ok=True)
            files[split].write_text("".join(json.dumps(item) + "\n" for item in items))
        tasks.append(
            {
                "task": task.theirs,
                "docs": {split: str(file) for split, file in files.items()},
                "samples": _samples(task, examples) if task.sampled else None,
                "num_fewshot": task.num_fewshot,
                "chat": task.chat,
                "multiturn": task.multiturn,
            }
        )
    (folder / "asked.json").write_text(json.dumps(tasks))
    env = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "hf")}
    done = subprocess.run(
        [python, "-P", str(HERE / "prompts_harness.py"), str(folder)],
        env={**environment(), **env},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BenchFailed(f"the harness ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return json.loads((folder / "told.json").read_text())


def _samples(task: Task, examples: Sequence[Record]) -> list[Record]:
    if task.suite == "mbpp":
        return [{**example, "is_fewshot": True} for example in examples[:3]]
    if task.task == "direct":
        return [
            {**example, "target": re.findall(r"the answer is (.*?)\.?\s*$", example["target"])[-1]}
            for example in examples[:3]
        ]
    return list(examples[:3])


def main() -> int:
    """Compare, store and write the page; 1 when a prompt differs in another way than declared."""
    parser = argparse.ArgumentParser(prog="python -m bench.prompts", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared", help="folder with the folder 'data'")
    parser.add_argument("--lm-eval", default=str(ROOT / ".venv-lm-eval" / "bin" / "python"), help="that has lm-eval")
    parser.add_argument("--page", action="store_true", help="write the page again from what is stored")
    options = parser.parse_args()
    if options.page:
        stored = json.loads(GOLDEN.read_text(encoding="utf-8"))
        PAGE.write_text(page(stored["lm_eval"], stored["tasks"]), encoding="utf-8")
        return 0
    (HERE / "out").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=HERE / "out") as name:
        folder = Path(name)
        image = local_image(folder)
        suites = {task.suite: local_suite(task.suite, options.data, folder, image) for task in TASKS}
        try:
            told = their_prompts(suites, os.path.abspath(options.lm_eval), folder)
        except BenchFailed as error:
            print(error, file=sys.stderr)
            return 1
        failed, stored = 0, {}
        for number, (task, theirs) in enumerate(zip(TASKS, told["tasks"], strict=True)):
            place = folder / f"task{number}"
            place.mkdir()
            ours = [comparable(prompt, task) for prompt in our_prompts(task, suites[task.suite], place)]
            wanted = theirs["prompts"]
            for difference in task.differences:
                wanted = [difference.ours(prompt) for prompt in wanted]
            off = [place for place, pair in enumerate(zip(ours, wanted, strict=True)) if pair[0] != pair[1]]
            failed += bool(off)
            print(f"{task.name}: {len(ours) - len(off)} of {len(ours)} prompts are the harness's, as declared")
            if off:
                print(f"  theirs {json.dumps(wanted[off[0]], ensure_ascii=False)[-3000:]}")
                print(f"  ours   {json.dumps(ours[off[0]], ensure_ascii=False)[-3000:]}")
            stored[task.name] = {"theirs": task.theirs, "version": theirs["version"], "prompts": [*map(digest, wanted)]}
    if failed:
        return 1
    GOLDEN.write_text(json.dumps({"lm_eval": told["version"], "tasks": stored}, indent=1) + "\n")
    PAGE.write_text(page(told["version"], stored), encoding="utf-8")
    return 0


def local_image(folder: Path) -> str:
    """An image in a folder, for rows that need one."""
    from PIL import Image

    Image.new("RGB", (64, 48), (200, 30, 60)).save(folder / "page.png")
    return "page.png"


# Where an answer may end: suite, the harness, ours.
LIMITS = (
    ("mmlu", r"`</s>`, `\n`", "none, 1024; the first line is read where only that counts"),
    ("bbh direct", r"`</s>`, `Q`, `\n\n`", r"`</s>`, `Q:`, `\n\n`, 256; an answer may have a capital Q"),
    ("bbh cot", r"`</s>`, `Q`, `\n\n`, 1024", "`</s>`, `Q:`, 2048; a chain of thought may have blank lines"),
    ("math500", "`Problem:`", "none, 4096"),
)


def page(version: str, stored: Mapping[str, Any]) -> str:
    """docs/suites-lm-eval.md."""
    lines = [
        "# Prompts: lm-eval and ours",
        "",
        "`make bench-prompts` renders the first ten rows of each task with the lm-eval harness in a separate",
        "environment. It writes this page and the hashes that a test compares our prompts with. Messages, texts,",
        "examples and candidates are the same, character by character, apart from the differences below. The rows of",
        "ARC,",
        "HellaSwag, MMLU-Pro, MBPP and MMMU are made for the test, as are the worked examples of BIG-Bench Hard, which",
        "both sides get. MMLU, CMMLU, MMLU-Pro and BIG-Bench Hard are compared on one subject.",
        "",
        "| suite | task | lm-eval's task | version | prompts |",
        "|---|---|---|---|---|",
    ]
    for task in TASKS:
        record = stored[task.name]
        same = "the same" if not task.differences else "differ"
        lines.append(f"| `{task.suite}` | `{task.task}` | `{task.theirs}` | {record['version']} | {same} |")
    lines += ["", "## Where and why they differ", ""]
    why: dict[str, list[str]] = {}
    for task in TASKS:
        for difference in task.differences:
            names = why.setdefault(difference.why, [])
            if task.suite not in names:
                names.append(task.suite)
    lines += [f"- {', '.join(f'`{name}`' for name in names)}: {reason}" for reason, names in why.items()]
    lines += [
        "",
        "Stop strings and the most tokens of an answer are not part of a prompt. The templates have them. They differ",
        "where the harness cuts what a chat model says before its answer:",
        "",
        "| suite | lm-eval's `until` and most tokens | ours |",
        "|---|---|---|",
        *(f"| `{suite}` | {theirs} | {ours} |" for suite, theirs, ours in LIMITS),
        "",
    ]
    lines += ["## Not compared", ""]
    reasons: dict[str, list[str]] = {}
    for name, reason in NOT_COMPARED.items():
        reasons.setdefault(reason, []).append(name)
    lines += [f"- {', '.join(f'`{name}`' for name in names)}: {reason}" for reason, names in reasons.items()]
    return "\n".join([*lines, "", f"lm-eval {version}."]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
