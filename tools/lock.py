"""The lock of results: what built-in plug-ins and stages make of tests/lock/vectors.yaml, by their versions.

    python -m tools.lock    record the results; refused where results changed and the version did not

Keys hold only the version of built-in code (`registry.Plugin.identity`, `planning.keys`). So code that gives other
results under the same version would be answered with stored results of the old code. tests/tools/test_lock.py fails
then. The version of a stage is the key of its action, which also holds the versions of the plug-ins that it uses.
"""

import logging
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import orjson
import yaml

from gage_eval.base.canonical import canonical_text, decode, digest
from gage_eval.data.sample.record import RecordRejected
from gage_eval.data.standardize.compose import build
from gage_eval.extend import registry
from gage_eval.pipeline.score_row import metric_spec, score
from gage_eval.pipeline.standardize import to_standard
from gage_eval.runs import RunOptions, run_inline
from gage_eval.scoring.metrics.aggregations.base import CountedRows, find_aggregation
from gage_eval.scoring.metrics.pipelines import read_pipelines
from gage_eval.scoring.metrics.scale import Scale
from gage_eval.scoring.metrics.verdicts import read_parser
from gage_eval.store import Store

ROOT = Path(__file__).parents[1]
VECTORS = ROOT / "tests" / "lock" / "vectors.yaml"
LOCK = ROOT / "tests" / "lock" / "results.json"
# Sentences for people, and ids of artifacts that hold some.
_NO_RESULTS = frozenset({"explanation", "scores", "first_rejects"})
# The code of a library or a program, which needs the files of a task; or is not installed with this package.
_OF_LIBRARIES = frozenset(
    {"aggregations:lm_eval", "metrics:lm_eval", "metrics:bfcl_multi_turn", "metrics:rendered_text"}
)

Case: TypeAlias = tuple[str, Any, Any]
"""The name of a plug-in, the vector, and the result."""


@dataclass(frozen=True)
class Entry:
    """The version of a plug-in or stage, and digests of its vectors and of the results that it gives for them."""

    version: int | str
    vectors: str
    results: str


def current() -> tuple[dict[str, Entry], list[str]]:
    """The entries of the current code by ``kind:name``, and the names of plug-ins that the vectors do not test."""
    vectors = yaml.safe_load(VECTORS.read_text(encoding="utf-8"))
    entries, untested = of_plugins(vectors)
    return {**entries, **dict(_stages(vectors["stages"]))}, untested


def of_plugins(vectors: Mapping[str, Any]) -> tuple[dict[str, Entry], list[str]]:
    """What `current` says of plug-ins. A plug-in whose results are all equal is not tested."""
    entries, untested = {}, []
    for kind, cases in (
        ("metrics", _metrics(vectors["metrics"])),
        ("filters", _filters(**vectors["filters"])),
        ("verdict_parsers", _verdicts(**vectors["verdict_parsers"])),
        ("aggregations", _aggregations(**vectors["aggregations"])),
        ("preprocessors", _preprocessors(vectors["preprocessors"])),
    ):
        of_name: dict[str, list[tuple[Any, str]]] = {item.name: [] for item in registry.ALL[kind] if item.is_builtin}
        for name, vector, result in cases:
            of_name[name].append((vector, _digest(result)))
        for name, results in of_name.items():
            inputs = _digest([vector for vector, _ in results])
            entries[f"{kind}:{name}"] = Entry(registry.ALL[kind].get(name).version, inputs, _digest(results))
            if len({result for _, result in results}) < 2 and f"{kind}:{name}" not in _OF_LIBRARIES:
                untested.append(f"{kind}:{name}")
    return entries, untested


def differences(locked: Mapping[str, Entry], code: Mapping[str, Entry]) -> dict[str, str]:
    """What differs from the lock and what to do, by entry."""
    return {
        name: why
        for name in sorted({*locked, *code})
        if (why := _difference(locked.get(name), code.get(name))) is not None
    }


def read() -> dict[str, Entry]:
    """The entries of the lock."""
    return {name: Entry(**entry) for name, entry in orjson.loads(LOCK.read_bytes()).items()}


def main() -> int:
    """Record the results. Returns the exit code: 2 where they changed and the version did not."""
    logging.disable(logging.WARNING)
    locked, (code, untested) = read(), current()
    changes = differences(locked, code)
    refused = {name: why for name, why in changes.items() if not why.endswith(_RECORD)}
    refused |= dict.fromkeys(untested, _UNTESTED)
    if refused:
        sys.stderr.write("".join(f"{name}: {why}\n" for name, why in refused.items()))
        return 2
    lines = [f'"{name}": {orjson.dumps(asdict(entry)).decode()}' for name, entry in sorted(code.items())]
    LOCK.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    sys.stdout.write(f"{len(changes)} of {len(code)} entries changed.\n")
    return 0


_LETTERS = "ABCDEFGHIJ"
_RECORD = "Record it: make lock."
_UNTESTED = f"No two of its vectors give different results. Add some to {VECTORS.relative_to(ROOT)}."


def _difference(was: Entry | None, now: Entry | None) -> str | None:
    if was == now:
        return None
    if was is None or now is None:
        return f"It is {'not in the lock' if was is None else 'no longer in the code'}. {_RECORD}"
    if isinstance(was.version, int) and isinstance(now.version, int) and now.version < was.version:
        return f"Its version went back from {was.version} to {now.version}. Versions only rise."
    if (was.version, was.vectors) == (now.version, now.vectors):
        return "Its results changed and its version did not. Raise the version where it is declared, then make lock."
    return f"Its {'vectors' if was.version == now.version else 'version'} changed. {_RECORD}"


def _metrics(groups: list[dict[str, Any]]) -> Iterator[Case]:
    for group in groups:
        fields = group.get("fields", {})
        rows = [row if isinstance(row, dict) else _row(row[0], row[1], fields) for row in group.get("rows", ())]
        rows += _published(group["file"]) if "file" in group else ()
        for metric in group["metrics"]:
            spec = metric_spec(metric)
            for row in rows:
                yield spec.implementation, [metric, row], asdict(score(metric, **row))


def _row(answer: str, label: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"sample": {"label": label, **fields}, "model_output": {"answer": answer}}


def _published(file: str) -> Iterator[dict[str, Any]]:
    """The rows of a file of docs/vectors: answers to questions with options."""
    for line in (ROOT / "docs" / "vectors" / file).read_bytes().splitlines():
        row = orjson.loads(line)
        texts = row["options"]
        texts = texts if isinstance(texts, dict) else dict(zip(_LETTERS, texts, strict=False))
        options = [{"id": name, "content": text} for name, text in texts.items()]
        answer, label = (row["response"], row["answer"]) if "response" in row else (row["answer"], row["expected"])
        yield _row(answer if isinstance(answer, str) else "", label or options[0]["id"], {"options": options})


def _filters(calls: list[Any], texts: list[list[str]]) -> Iterator[Case]:
    for call in calls:
        (pipeline,) = read_pipelines([call])
        for group in texts:
            yield pipeline.steps[0].plugin.name, [call, group], sorted(pipeline.of_sample(group).items())


def _verdicts(calls: list[Any], texts: list[str]) -> Iterator[Case]:
    for call in calls:
        parser = read_parser(call)
        for text in texts:
            yield parser.plugin.name, [call, text], parser.read(text)


def _aggregations(calls: list[dict[str, Any]], rows: list[dict[str, Any]]) -> Iterator[Case]:
    for call in calls:
        how = find_aggregation(call["name"])
        for row in rows:
            count = len(row["values"])
            clusters, weights = row.get("clusters"), row.get("weights")
            terms = np.array([call["terms"][at % len(call["terms"])] for at in range(count)]) if how.terms else None
            counted = CountedRows(
                np.array(row["row_index"], np.int64),
                np.array(row["values"], np.float64),
                None if clusters is None or not how.takes_clusters else np.array(clusters),
                None if weights is None or not how.takes_weights else np.array(weights, np.float64),
                np.empty((0, 0)) if terms is not None and not count else terms,
                row.get("categories", [None] * count),
                Scale(binary=bool(row.get("binary"))),
                row.get("categories", [None] * count)[::-1] if how.pairs else None,
            )
            yield how.plugin.name, [call, row], how.compute(counted)


def _preprocessors(records: dict[str, list[Any]]) -> Iterator[Case]:
    for name, cases in records.items():
        for options, record in cases:
            try:
                result = to_standard(canonical_text(record), build(registry.preprocessors.get(name), options))
            except RecordRejected:
                result = None
            yield name, [options, record], result


def _stages(config: dict[str, Any]) -> Iterator[tuple[str, Entry]]:
    """Run the config: the results of a stage are the rows of its artifacts."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.json"
        file.write_bytes(orjson.dumps(config))
        outcome = run_inline(RunOptions(config=str(file), store=f"{folder}/store"))
        store = Store.open(f"{folder}/store", read_only=True)
        keys: dict[str, list[str]] = defaultdict(list)
        rows: dict[str, list[Any]] = defaultdict(list)
        for (_, stage), result in sorted(outcome.results.items()):
            keys[stage].append(result.key)
            for name, id_ in result.outputs.items():
                if not name.endswith(("telemetry", "rejects")):
                    rows[stage] += _rows(store, name, id_)
        for stage, its_keys in keys.items():
            yield f"stages:{stage}", Entry(_digest(its_keys), _digest(config), _digest(rows[stage]))


def _rows(store: Store, output: str, artifact: str) -> Iterator[Any]:
    """The rows of an artifact; of metrics with the score rows, whose artifact's id also covers sentences."""
    for row in store.artifact(artifact).table().to_pylist():
        scored = store.artifact(row["scores"]).table().to_pylist() if output == "metrics" else []
        yield [decode(row["summary"]) if output == "report" else row, scored]


def _digest(value: Any) -> str:
    return digest(_plain(value))[:16]


def _plain(value: Any) -> Any:
    """As JSON, without sentences for people; floats to 12 digits, because machines differ in the last ones."""
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items() if key not in _NO_RESULTS}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float | np.floating):
        return f"{value:.12g}"
    return value if isinstance(value, str | int | None) else type(value).__name__


if __name__ == "__main__":
    sys.exit(main())
