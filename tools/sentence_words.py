"""gage_eval/scoring/metrics/ifeval/common_words.py from the texts of permissively licensed data sets.

python -m tools.sentence_words DATA     DATA holds gsm8k, piqa, mmlu and truthfulqa as published
"""

import argparse
import csv
import json
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

MODULE = Path(__file__).resolve().parents[1] / "gage_eval" / "scoring" / "metrics" / "ifeval" / "common_words.py"

_HEAD = '''"""Common English words by the case in which they are written, for `sentences`.

Made by `python -m tools.sentence_words`: words that at least two of GSM8K (MIT), PIQA (AFL-3.0), MMLU (MIT) and
TruthfulQA (Apache-2.0) write in lower case, at least three times altogether.
"""
'''
_WORD = re.compile(r"\b[a-z][a-z']*")
_ONE_LETTER_WORDS = "ai"
_INSIDE_CAPITAL, _LOWER = 1 << 2, 7 << 4


def texts(data: Path) -> dict[str, list[str]]:
    """The texts of each data set."""
    gsm8k = [json.loads(line) for line in (data / "gsm8k" / "test.jsonl").read_text("utf-8").splitlines()]
    piqa = [json.loads(line) for line in (data / "piqa" / "valid.jsonl").read_text("utf-8").splitlines()]
    with (data / "truthfulqa" / "TruthfulQA.csv").open(encoding="utf-8", newline="") as file:
        truthful = [
            text for row in csv.DictReader(file) for text in (row["Question"], *row["Correct Answers"].split(";"))
        ]
    return {
        "gsm8k": [re.sub("<<.*?>>", "", row[name]) for row in gsm8k for name in ("question", "answer")],
        "piqa": [row[name] for row in piqa for name in ("goal", "sol1", "sol2")],
        "mmlu": list(_mmlu(data / "mmlu")),
        "truthfulqa": truthful,
    }


def _mmlu(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*/*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.reader(file):
                yield from row[:5]


def words(data: Path) -> tuple[list[str], list[str]]:
    """The words that are lower-case inside a sentence, and those that are capitalised there too."""
    from nltk.tokenize.punkt import PunktTrainer

    trainer = PunktTrainer()
    count: Counter[str] = Counter()
    sources: dict[str, set[str]] = {}
    for name, contents in texts(data).items():
        trainer.train("\n".join(contents), finalize=False)
        for content in contents:
            for word in _WORD.findall(content):
                count[word] += 1
                sources.setdefault(word, set()).add(name)
    trainer.finalize_training()
    context = trainer.get_params().ortho_context
    common = sorted(
        word
        for word, times in count.items()
        if times >= 3 and len(sources[word]) >= 2 and (len(word) > 1 or word in _ONE_LETTER_WORDS)
    )
    lower = [word for word in common if context[word] & _LOWER]
    return (
        [word for word in lower if not context[word] & _INSIDE_CAPITAL],
        [word for word in lower if context[word] & _INSIDE_CAPITAL],
    )


def main(arguments: list[str] | None = None) -> int:
    """Write the module."""
    parser = argparse.ArgumentParser(prog="python -m tools.sentence_words")
    parser.add_argument("data", type=Path, help="folder with the data sets")
    lower, either = words(parser.parse_args(arguments).data)
    parts = [_HEAD]
    for name, found in (("LOWER_CASE", lower), ("EITHER_CASE", either)):
        body = textwrap.fill(" ".join(found), 118, break_on_hyphens=False, break_long_words=False)
        parts.append(f'\n{name} = """\n{body}\n"""\n')
    MODULE.write_text("".join(parts), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
