"""How well rules read choices: precision and recall on recorded answers and on the vectors, for docs/choices.md.

python -m tools.choice_reading DATA                    the table; DATA is the folder that LOCAL_DATASETS_ROOT names
python -m tools.choice_reading DATA --against FILE      compare with another version of
gage_eval/scoring/metrics/choices.py

Precision is the share of the readings that are right, recall the share of the answers that choose an option and are
read rightly.
"""

import argparse
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from gage_eval.scoring.metrics.choices import choose
from gage_eval.scoring.metrics.mmmu_rules import read_choice, read_pro_choice

Rule: TypeAlias = Callable[[str, Mapping[str, str]], str | None]
Answer: TypeAlias = tuple[str, Mapping[str, str], str | None]
"""A text, its options, and the option that it chooses."""

VECTORS = Path(__file__).resolve().parents[1] / "docs" / "vectors" / "multi_choice.jsonl"
_ONLY_A_LETTER = re.compile(r"[^\w]*([A-Z])[^\w]*")
# The answers of the MMMU replay that are more than a letter, read by a person; one lists all options.
_MMMU_BY_HAND: dict[str, str | None] = {
    "validation_Architecture_and_Engineering_12": "A",
    "validation_Architecture_and_Engineering_30": "A",
    "validation_Design_4": "A",
    "validation_Economics_3": "B",
    "validation_History_13": "A",
    "validation_Math_19": "A",
    "validation_Mechanical_Engineering_22": "A",
    "validation_Pharmacy_16": "A",
    "validation_Pharmacy_27": None,
    "validation_Pharmacy_30": "A",
    "validation_Psychology_4": "C",
}


def mmmu(data: Path) -> Iterator[Answer]:
    """MMMU, LLaVA-1.5-13B: the multiple-choice questions."""
    for file in sorted((data / "replays" / "mmmu_llava15_13b" / "llava1.5_13b").glob("*/output.json")):
        for row in json.loads(file.read_text(encoding="utf-8")):
            if row["question_type"] == "multiple-choice":
                letter = _ONLY_A_LETTER.fullmatch(row["response"])
                yield row["response"], row["index2ans"], letter[1] if letter else _MMMU_BY_HAND[row["id"]]


def _bbh(data: Path, task: str) -> Iterator[tuple[str, str]]:
    file = data / "replays" / "bbh_codex" / f"{task}.json"
    for row in json.loads(file.read_text(encoding="utf-8"))["outputs"]:
        yield row["input"].rpartition("Options:")[2], row["prediction"]


def bbh_dates(data: Path) -> Iterator[Answer]:
    """BBH date understanding, Codex: the answer is a letter in brackets."""
    for question, text in _bbh(data, "direct/date_understanding"):
        options = dict(re.findall(r"^\(([A-Z])\) (.+)$", question, re.MULTILINE))
        letter = _ONLY_A_LETTER.fullmatch(text)
        yield text, options, letter[1] if letter else None


def bbh_sports(data: Path) -> Iterator[Answer]:
    """BBH sports understanding, Codex with chain of thought: options yes and no, the answer as BBH reads it."""
    for _, text in _bbh(data, "cot/sports_understanding"):
        thought = text.strip().partition("\n\n")[0]
        said = thought.rpartition("the answer is")[2].strip().removesuffix(".")
        yield thought, {"A": "yes", "B": "no"}, {"yes": "A", "no": "B"}.get(said)


def bbh_booleans(data: Path) -> Iterator[Answer]:
    """BBH boolean expressions, Codex: options True and False."""
    for _, text in _bbh(data, "direct/boolean_expressions"):
        yield text, {"A": "True", "B": "False"}, {"True": "A", "False": "B"}.get(text.strip())


def vectors(data: Path) -> Iterator[Answer]:
    """The hard cases of docs/vectors/multi_choice.jsonl."""
    del data
    for line in VECTORS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield row["answer"], row["options"], row["expected"]


SETS: dict[str, Callable[[Path], Iterator[Answer]]] = {
    "MMMU, LLaVA-1.5-13B": mmmu,
    "BBH dates, Codex": bbh_dates,
    "BBH sports, Codex, chain of thought": bbh_sports,
    "BBH booleans, Codex": bbh_booleans,
    "hard cases": vectors,
}


def row_of(name: str, answers: list[Answer], rule: Rule) -> str:
    """A line of the table."""
    read = [(rule(text, options), right) for text, options, right in answers]
    made = sum(found is not None for found, _ in read)
    hits = sum(found is not None and found == right for found, right in read)
    choosing = sum(right is not None for _, right in read)
    return f"{len(answers)} | {made} | {hits / made if made else 0:.3f} | {hits / choosing:.3f} |"


def table(data: Path, rules: Mapping[str, Rule]) -> Iterator[str]:
    """The lines of the table."""
    yield "| answers | rule | n | read | precision | recall |"
    yield "|---|---|---|---|---|---|"
    for name, source in SETS.items():
        answers = list(source(data))
        for rule_name, rule in rules.items():
            yield f"| {name} | {rule_name} | {row_of(name, answers, rule)}"


def _other(file: str) -> Rule:
    spec = importlib.util.spec_from_file_location("other_choices", file)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{file}: it is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rule: Rule = module.choose
    return rule


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tools.choice_reading")
    parser.add_argument("data", type=Path, help="the folder that LOCAL_DATASETS_ROOT names")
    parser.add_argument("--against", help="another choices.py")
    options = parser.parse_args(arguments)
    rules: dict[str, Rule] = {"against": _other(options.against)} if options.against else {}
    rules |= {"multi_choice_accuracy": choose, "mmmu_accuracy": read_choice, "mmmu_pro_accuracy": read_pro_choice}
    sys.stdout.writelines(f"{line}\n" for line in table(options.data, rules))
    return 0


if __name__ == "__main__":
    sys.exit(main())
