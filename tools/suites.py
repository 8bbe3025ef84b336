"""The released forms of the built-in suites with their sets of defaults, and the digests that tests hold.

python -m tools.suites                        write what is missing: vN.released.json, metadata.digest, golden digests,
                                              and defaults-N.json where the models' defaults are not the newest set's
python -m tools.suites --rewrite gsm8k/v1 …   write these again, as long as the version is not released; without names
                                              all of them, and the newest set

A released version and a released set never change: a suite that is to mean something else gets a new version.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel

from gage_eval.config.models import PipelineConfig
from gage_eval.config.suites import frozen
from gage_eval.config.suites.frozen import SECTIONS, record_of, released_file
from gage_eval.config.yaml import lines as yaml_lines

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


def newest_set() -> int:
    """The number of the newest set of defaults; 0 without any."""
    numbers = [int(file.stem.partition("-")[2]) for file in TEMPLATES.glob("defaults-*.json")]
    return max(numbers, default=0)


def current_defaults() -> dict[str, dict[str, Any]]:
    """The set of defaults that the models have now."""
    return dict(_defaults(PipelineConfig, ""))


def _defaults(model: type[BaseModel], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    fields = {name: item for name, item in model.model_fields.items() if path or name in SECTIONS}
    optional = {name: item for name, item in fields.items() if not item.is_required()}
    values = {name: item.get_default(call_default_factory=True) for name, item in optional.items()}
    # The fields of a section that may be left out are at the section's own path.
    yield path, {name: {} if isinstance(value, BaseModel) else value for name, value in values.items()}
    for name, item in fields.items():
        for suffix, inner in _models_in(item.annotation):
            yield from _defaults(inner, f"{path}.{name}{suffix}".lstrip("."))


def _models_in(annotation: Any) -> Iterator[tuple[str, type[BaseModel]]]:
    """(what leads to it, model) of the models that values of a type hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield "", annotation
        return
    arguments = get_args(annotation)
    step = "[]" if get_origin(annotation) is list else ""
    for argument in arguments[:1] if get_origin(annotation) is Annotated else arguments:
        for suffix, model in _models_in(argument):
            yield step + suffix, model


def write_defaults(number: int) -> None:
    """Write a set of defaults, one section per line."""
    lines = [f"{json.dumps(path)}: {json.dumps(own)}" for path, own in current_defaults().items()]
    (TEMPLATES / f"defaults-{number}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    frozen.defaults.cache_clear()


def write(file: Path) -> str:
    """Write the released form of a template and put its digest into the template; returns the digest."""
    record = record_of(definition_of(file), newest_set())
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    released_file(file).write_text(text, encoding="utf-8")
    template = _DIGEST.sub("", file.read_text(encoding="utf-8"), count=1)
    stamped = _VERSION.sub(lambda match: f"{match[0].rstrip()}\n  digest: {record['digest']}", template, count=1)
    file.write_text(stamped, encoding="utf-8")
    return str(record["digest"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Write what is missing or is to be written again."""
    parser = argparse.ArgumentParser(prog="python -m tools.suites", description="Released forms of the suites.")
    parser.add_argument("--rewrite", nargs="*", metavar="NAME/vN")
    wanted = parser.parse_args(arguments).rewrite
    rewritten = set() if wanted is None else set(wanted or templates())
    newest = newest_set()
    if wanted == [] and newest:
        write_defaults(newest)
    elif not newest or frozen.defaults(newest) != current_defaults():
        write_defaults(newest + 1)
    golden = json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.is_file() else {}
    for name, file in templates().items():
        if name in rewritten or name not in golden or not released_file(file).is_file():
            golden[name] = write(file)
    golden = {name: digest for name, digest in golden.items() if name in templates()}
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(json.dumps(golden, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
