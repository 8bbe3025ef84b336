"""The expanded forms of the built-in suites, and the digests that tests hold.

python -m tools.suites                   write what is missing: vN.expanded.json, metadata.digest, the golden digest
python -m tools.suites --rewrite gsm8k/v1 …   write these again, as long as the version is not released; without
                                         names all of them

A released version never changes: a suite that is to mean something else gets a new version.
"""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gage_eval.config import yaml_lines
from gage_eval.config.digest import definition_digest as definition_digest
from gage_eval.config.expanded import expanded_file, record_of

ROOT = Path(__file__).resolve().parents[1]
TEMPLATES = ROOT / "configs" / "builtin_templates"
GOLDEN = ROOT / "tests" / "suites" / "golden_digests.json"
_VERSION = re.compile(r"^  version: *v\d+ *$", re.MULTILINE)
_DIGEST = re.compile(r"^  digest: .*\n", re.MULTILINE)


def templates() -> dict[str, Path]:
    """The files of all versions of all suites, as ``gsm8k/v1``."""
    files = sorted(TEMPLATES.glob("*/v*.yaml"))
    return {f"{file.parent.name}/{file.stem}": file for file in files}


def definition_of(file: Path) -> dict[str, Any]:
    """The definition as a template writes it."""
    whole = yaml_lines.as_written(yaml_lines.parse(file.read_text(encoding="utf-8"), str(file)))
    definition = whole["definition"]
    assert isinstance(definition, dict)
    if "${" in json.dumps(definition):
        raise SystemExit(f"{file}: a suite means the same everywhere, so its definition takes nothing from variables")
    return definition


def write(file: Path) -> str:
    """Write the expanded form of a template and put its digest into the template; returns the digest."""
    record = record_of(definition_of(file))
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    expanded_file(file).write_text(text, encoding="utf-8")
    template = _DIGEST.sub("", file.read_text(encoding="utf-8"), count=1)
    stamped = _VERSION.sub(lambda found: f"{found[0].rstrip()}\n  digest: {record['digest']}", template, count=1)
    file.write_text(stamped, encoding="utf-8")
    return str(record["digest"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Write what is missing or is to be written again."""
    parser = argparse.ArgumentParser(prog="python -m tools.suites", description="Expanded forms of the suites.")
    parser.add_argument("--rewrite", nargs="*", metavar="NAME/vN")
    wanted = parser.parse_args(arguments).rewrite
    rewritten = set() if wanted is None else set(wanted or templates())
    golden = json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.is_file() else {}
    for name, file in templates().items():
        if name in rewritten or name not in golden or not expanded_file(file).is_file():
            golden[name] = write(file)
    golden = {name: digest for name, digest in golden.items() if name in templates()}
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(json.dumps(golden, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
