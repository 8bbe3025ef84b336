"""The documented config for problems in LiveCodeBench's form judges answers as the official checker does."""

import base64
import json
import pickle
import re
import zlib
from pathlib import Path
from typing import Any

import yaml
from support.boxes import NEEDS_BOX

import gage_eval

pytestmark = NEEDS_BOX

HALVES = "for _ in range(int(input())):\n    print({value})"
READS = {
    "right": HALVES.format(value="int(input()) / 2"),
    "as decimals, with white space": HALVES.format(value="f'  {int(input()) / 2:.3f}  '"),
    "by a main guard and an import that is not written": (
        "def main():\n    n, *rest = map(int, stdin.read().split())\n    print('\\n'.join(str(Counter([v])[v] * v / 2) "
        "for v in rest))\nif __name__ == '__main__':\n    main()"
    ),
    "wrong on the private test": HALVES.format(value="[0, 0.5, 1, 1.5, 2][int(input())]"),
    "too many lines": HALVES.format(value="int(input()) / 2, end='\\n1\\n'"),
    "by exit": "exit(0)",
    "right, with an exit code": HALVES.format(value="int(input()) / 2") + "\nsys.exit(3)",
    "right, then an error": HALVES.format(value="int(input()) / 2") + "\nraise ValueError",
    "right, then the process ends": HALVES.format(value="int(input()) / 2, flush=True") + "\nimport os\nos._exit(3)",
    "endless": "while True: pass",
    "no program": None,
}
METHODS = {
    "right": "class Solution:\n    def pair(self, a: List[int], b):\n        return [a[0], b]",
    "as a tuple": "class Solution:\n    def pair(self, a, b):\n        return a[0], b",
    "as a function": "def pair(a, b):\n    return [a[0], b]",
    "by state": "class Solution:\n    def __init__(self): self.n = 0\n    def pair(self, a, b):\n        self.n += 1\n"
    "        return [self.n, b]",
    "wrong": "class Solution:\n    def pair(self, a, b):\n        return [b, a[0]]",
    "equal to all": "class E(list):\n    def __eq__(self, other): return True\nclass Solution:\n"
    "    def pair(self, a, b): return E()",
    "too slow": "class Solution:\n    def pair(self, a, b):\n        while True: pass",
    "without the method": "class Solution: pass",
}
PASSES = {
    *("right", "as decimals, with white space", "by a main guard and an import that is not written"),
    *("as a tuple", "as a function", "by state", "right, with an exit code"),
}


def cases(*pairs: tuple[str, str]) -> str:
    return json.dumps([{"input": stdin, "output": output, "testtype": "stdin"} for stdin, output in pairs])


def packed(text: str) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(text))).decode()


STDIN = {
    "starter_code": "",
    "metadata": "{}",
    "contest_date": "2024-06-30",
    "public_test_cases": cases(("2\n1\n2\n", "0.50\n1\n")),
    "private_test_cases": packed(cases(("1\n7\n", "3.5"))),
}
FUNCTIONAL = {
    "starter_code": "class Solution:\n    def pair(self, a: List[int], b: str):\n        ",
    "metadata": '{"func_name": "pair"}',
    "contest_date": "2025-03-01",
    "public_test_cases": cases(('[1, 2]\n"x"', '[1, "x"]')),
    "private_test_cases": packed(cases(("[2]\nnull", "[2, null]"))),
}


def write(folder: Path, config: dict[str, Any]) -> None:
    """The folder of problems and the answers; each answer is of a problem of its own."""
    (folder / "problems").mkdir()
    for kind, problem, programs in (("stdin", STDIN, READS), ("functional", FUNCTIONAL, METHODS)):
        rows, answers = [], []
        for name, program in programs.items():
            common = {"platform": "mine", "difficulty": "easy", "question_content": "Do it."}
            rows.append({"question_id": f"{kind}: {name}", **common, **problem})
            text = "I cannot." if program is None else f"```\nnot this\n```\nbut\n```python\n{program}\n```"
            answers.append({"id": f"{kind}: {name}", "answer": text})
        (folder / "problems" / f"{kind}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / f"{kind}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in answers))
    config["backends"] = [
        {"backend_id": kind, "type": "replay", "config": {"path": f"{kind}.jsonl", "answer_field": "answer"}}
        for kind in ("stdin", "functional")
    ]
    for task in config["tasks"]:
        kind = task["task_id"]
        task["adapter_id"] = kind
        # The official limits would take this test half a minute.
        task["execution"]["limits"] |= {"cpu_s": 1.0}


def test_programs_and_methods_are_judged_as_by_the_official_checker(repo_root: Path, tmp_path: Path) -> None:
    page = (repo_root / "docs/code.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"`contests\.yaml`:\n\n```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    config = yaml.safe_load(block)
    write(tmp_path, config)
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    run = gage_eval.run(str(file), store=str(tmp_path / "store"))
    ended = {
        row.sample["id"]: (entry["status"], entry["text"])
        for task in ("stdin", "functional")
        for row in run.rows(task)
        for entry in row.executions
    }
    passed = {name for name, (status, _) in ended.items() if status == "passed"}
    problems = [
        f"{kind}: {name}" for kind, programs in (("stdin", READS), ("functional", METHODS)) for name in programs
    ]
    assert passed == {name for name in problems if name.partition(": ")[2] in PASSES}, ended
    assert sorted(ended) == sorted(problems)
    assert ended["stdin: endless"][0] == ended["functional: too slow"][0] == "timed_out"
    assert ended["stdin: no program"][0] == "refused"
    assert ended["stdin: too many lines"][1] == "test 1: expected '0.50\\n1', printed '0.5\\n1\\n1.0\\n1'"
    assert "expected [1, 'x'], got ['x', 1]" in ended["functional: wrong"][1]
    slices = [score for task in run.summary.tasks for score in task.slices]
    windows = {score.slice_value: score.n for score in slices if score.slice_field == "data_tag.window"}
    assert windows == {"before 2024-08-01": len(READS), "from 2025-02-01": len(METHODS)}
