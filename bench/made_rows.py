"""Rows in the form of datasets that are not next to the checkout, made for tests. They are not benchmark data."""

import base64
import io
import json
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

Rows: TypeAlias = list[dict[str, Any]]
# Few-shot pools of five examples need so many.
_EXAMPLES = 5


def write_rows(file: Path, rows: Rows) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(file_of(file.name, rows))
    return file


def file_of(name: str, rows: Rows) -> bytes:
    """The content of a file of that name: a JSON array, or lines of JSON."""
    if name.endswith(".json"):
        return json.dumps(rows).encode()
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def agieval(path: str) -> Rows:
    """Three questions of an exam of AGIEval; some with several right options, some without options."""
    name = Path(path).stem
    base: dict[str, Any] = {"passage": None, "label": None, "answer": None, "other": None}
    if name in ("math", "gaokao-mathcloze"):
        answers = ["12", r"\frac{3}{4}", "-7"]
        return [
            {**base, "question": f"{name} {n}: what is the value of x?", "options": None, "answer": answer}
            for n, answer in enumerate(answers)
        ]
    several = name in ("gaokao-physics", "jec-qa-ca", "jec-qa-kd")
    labels: list[Any] = [["B"], ["A", "C"], ["B", "D"]] if several else ["B", "A", "D"]
    return [
        {
            **base,
            "passage": f"A passage of {name}.\n" if n else None,
            "question": f"{name} {n}: which number is it?",
            "options": [f"({letter}){10 * n + place}" for place, letter in enumerate("ABCD")],
            "label": label,
        }
        for n, label in enumerate(labels)
    ]


def bbh_prompts(task: str) -> str:
    """A file of worked examples as in BIG-Bench Hard's folder ``cot-prompts``."""
    shots = "\n\n".join(
        f"Q: Example {n} of {task}?\nA: Let's think step by step.\nWe look.\nThen we count. So the answer is {n}."
        for n in range(3)
    )
    return f"made for tests\n-----\nA description of {task}.\n\n{shots}"


def mmlu_pro(split: str) -> Rows:
    counts = {"law": 10} if split == "test" else {}
    return [
        {
            "question_id": 100 * place + n + (1000 if split == "validation" else 0),
            "question": f"{subject} {split} {n}: which letter is it?",
            "options": [f"{letter} of {subject} {n}" for letter in "PQRSTUVWXY"[: 10 - n // 2]],
            "answer": "ABCDEFGHIJ"[n % 6],
            "answer_index": n % 6,
            "cot_content": f"A: Let's think step by step. It is simple. The answer is ({'ABCDEFGHIJ'[n % 6]})."
            if split == "validation"
            else "",
            "category": subject,
            "src": "made",
        }
        for place, subject in enumerate(("law", "computer science", "math", "history", "physics"))
        for n in range(counts.get(subject, _EXAMPLES))
    ]


def arc(subset: str) -> Rows:
    rows = []
    for n in range(10):
        labels = list("1234") if n == 3 else list("ABC") if n == 5 else list("ABCD")
        rows.append(
            {
                "id": f"{subset}-{n}",
                "question": f"{subset} {n}: which of these is a solid ",
                "choices": {"text": [f"thing {n}.{place}" for place in range(len(labels))], "label": labels},
                "answerKey": labels[n % len(labels)],
            }
        )
    return rows


def hellaswag() -> Rows:
    return [
        {
            "ind": n,
            "activity_label": f"Removing {n}",
            "ctx_a": "A man is seen on a ladder."
            if n % 2
            else "[header] How to do it [title] Take a ladder. [step] Climb.",
            "ctx_b": "he" if n % 2 else "",
            "ctx": "unused",
            "endings": [f"climbs  down {n} [substeps] {place}." for place in range(4)],
            "source_id": f"made~{n}",
            "split": "val",
            "split_type": "indomain",
            "label": str(n % 4),
        }
        for n in range(10)
    ]


def mbpp(split: str) -> Rows:
    first = 2 if split == "prompt" else 20
    return [
        {
            "task_id": first + n,
            "text": f"Write a function to add {first + n} to a number.",
            "code": f"def add(x):\r\n  return x + {first + n}",
            "test_list": [f"assert add({x}) == {x + first + n}" for x in range(3)],
            "test_setup_code": "",
            "challenge_test_list": [],
        }
        for n in range(10)
    ]


def mbpp_sanitized() -> Rows:
    names = {"text": "prompt", "test_setup_code": "test_imports"}
    rows = [{names.get(name, name): value for name, value in row.items()} for row in mbpp("prompt")]
    return [{**row, "source_file": "made", "test_imports": ["import math"]} for row in rows]


def mmmu(subset: str, image: str) -> Rows:
    """Questions with options and open ones, in turn; ten of them for the first subject."""
    rows: Rows = []
    for n in range(0, 10 if subset == "Art" else 2, 2):
        rows += [
            {
                "id": f"validation_{subset}_{n}",
                "question": f"{subset} {n}: which part of <image 1> is it?",
                "options": "['the top', 'the middle', \"the bottom\"]",
                "answer": "B",
                "question_type": "multiple-choice",
                "subfield": "made",
                "image_1": image,
            },
            {
                "id": f"validation_{subset}_{n + 1}",
                "question": f"{subset} {n}: <image 1> How many lines are there?",
                "options": "[]",
                "answer": "7.5",
                "question_type": "open",
                "subfield": "made",
                "image_1": image,
            },
        ]
    return rows


def mmmu_pro(subset: str, image: str) -> Rows:
    rows: Rows = []
    for n in range(3):
        row: dict[str, Any] = {
            "id": f"test_{subset}_{n}",
            "options": str([f"part {place}" for place in range(10)]),
            "answer": "ABC"[n],
            "subject": "History" if n else "Art",
        }
        if subset == "vision":
            rows.append({**row, "image": image})
        else:
            rows.append({**row, "question": f"Which part of <image 1> is it ({n})?", "image_1": image})
    return rows


def docvqa(image: str) -> Rows:
    return [
        {
            "questionId": str(n),
            "question": f"What is in line {n}?",
            "answers": [f"Line {n}", f"line no. {n}"],
            "image": image,
        }
        for n in range(3)
    ]


def librispeech() -> Rows:
    """Three sentences, each with another recording of silence."""
    return [{"id": str(n), "audio": silence(0.1 * (n + 1)), "text": f"THIS IS SENTENCE {n}"} for n in range(3)]


def silence(seconds: float) -> str:
    """A WAV file as a data: URL."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(bytes(2 * round(16_000 * seconds)))
    return f"data:audio/wav;base64,{base64.b64encode(out.getvalue()).decode()}"


def ifeval() -> Rows:
    """Prompts whose instructions an answer can be written for without a model."""
    return [
        {
            "key": n,
            "prompt": f"Write something without commas ({n}).",
            "instruction_id_list": ["punctuation:no_comma"],
            "kwargs": [{}],
        }
        for n in range(3)
    ]


HUB: dict[str, Callable[[dict[str, str], str], Rows]] = {
    "TIGER-Lab/MMLU-Pro": lambda params, image: mmlu_pro(params["split"]),
    "allenai/ai2_arc": lambda params, image: arc(params["subset"]),
    "Rowan/hellaswag": lambda params, image: hellaswag(),
    "google-research-datasets/mbpp": lambda params, image: mbpp(params["split"]),
    "MMMU/MMMU": lambda params, image: mmmu(params["subset"], image),
    "MMMU/MMMU_Pro": lambda params, image: mmmu_pro(params["subset"], image),
    "openslr/librispeech_asr": lambda params, image: librispeech(),
    "lmms-lab/DocVQA": lambda params, image: docvqa(image),
}
"""By dataset of the hub: its rows, from the ``hub_params`` and the path of an image."""


def alpaca_eval(_: str) -> Rows:
    """Three instructions with the answers that others are compared with."""
    return [
        {"dataset": "made", "instruction": f"Say {n}.", "output": f"It is {n}.", "generator": "other"} for n in range(3)
    ]


def arena_hard(path: str) -> Rows:
    """Three hard prompts and one of creative writing; or the answers that others are compared with."""
    if "model_answer" not in path:
        kinds = ["hard_prompt", "hard_prompt", "creative_writing", "hard_prompt"]
        return [
            {"uid": f"u{n}", "category": kind, "subcategory": "math", "prompt": f"Prove {n}."}
            for n, kind in enumerate(kinds)
        ]
    messages = [[{"role": "user", "content": f"Prove {n}."}, {"content": {"answer": f"So {n}."}}] for n in range(4)]
    return [{"uid": f"u{n}", "model": "other", "messages": said} for n, said in enumerate(messages)]


ORIGINS: dict[str, Callable[[str], Rows]] = {
    "agieval": agieval,
    "alpaca_eval": alpaca_eval,
    "arena_hard": arena_hard,
    "mbpp_sanitized": lambda path: mbpp_sanitized(),
}
"""By origin without files next to a checkout: the rows of the file at a path."""
