"""A hit is looked at once: every manifest is read, every part is seen, and nothing is read again."""

from collections import Counter
from typing import Any

import pytest

from tests.pipeline.calling import Bench

RECORDS = [{"id": str(number), "messages": [{"role": "user", "content": "?"}]} for number in range(3)]


def test_a_hit_reads_each_manifest_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = bench.preprocess(bench.samples(RECORDS))
    first = bench.infer(prepared, bench.model())
    read: Counter[str] = Counter()
    objects = type(bench.store.objects)
    get = objects.get

    def counted(self: Any, path: str) -> bytes:
        read[path] += 1
        return get(self, path)

    monkeypatch.setattr(objects, "get", counted)
    again = bench.infer(prepared, bench.model())

    assert again.cached
    assert again.counts == {name: first.counts[name] for name in again.counts}
    manifests = [f"artifacts/{id_}/manifest.json" for id_ in again.outputs.values()]
    assert {path: read[path] for path in manifests} == dict.fromkeys(manifests, 1)


def test_a_hit_sees_that_a_part_is_gone(bench: Bench) -> None:
    prepared = bench.preprocess(bench.samples(RECORDS))
    first = bench.infer(prepared, bench.model())
    bench.store.objects.delete(f"artifacts/{first.outputs['responses']}/part-00000.parquet")

    again = bench.infer(prepared, bench.model())

    assert not again.cached
    assert again.outputs == first.outputs
