"""load: source → raw records in parts. Later stages keep the boundaries of the parts."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from gage_eval.base.stages import StageResult
from gage_eval.base.tables import RAW
from gage_eval.data.datasets import Filter, reservoir, select
from gage_eval.extend import registry
from gage_eval.observability.events import RunWarning
from gage_eval.pipeline.action import StageContext, StageRun, stage
from gage_eval.pipeline.specs import LoadSpec
from gage_eval.stats.early_stop import look_sizes

PART_ROWS = 4096
PART_BYTES = 64 * 1024 * 1024


def _tell(env: StageContext, spec: LoadSpec, result: StageResult) -> None:
    """Say what the loader has to say of its data."""
    for note in getattr(spec.source, "notes", ()):
        env.observer.emit(RunWarning(f"dataset '{spec.dataset_id}': {note}", result.task_id))


@stage("load", check=_tell)
def load(run: StageRun, spec: LoadSpec) -> None:
    """Read the records of a dataset as unchanged text.

    Args:
        run: writes ``raw``.
        spec: the loader, its parameters, and the selection of records: filter, then sample, then shuffle, then limit.

    Raises:
        InputError: the source is missing, unreadable or empty, or no record passes the filter.
    """
    writer = run.writer(RAW)
    rows = 0
    with spec.naming(), run.env.store.media.keeper(run.env.media_threads) as media:
        keeps_media = registry.loaders.get(spec.loader).info.get("keeps_media", False)
        records = spec.source.records(media.put) if keeps_media else spec.source.records()
        if spec.filter is not None:
            records = Filter(spec.filter).apply(records)
        if spec.sample is not None:
            records = reservoir(records, spec.sample, spec.seed)
        records = select(records, limit=spec.limit, shuffle=spec.shuffle, seed=spec.seed)
        if spec.looks:
            # One order of all rows, drawn at random: a look is its beginning.
            records = select(records, shuffle=True, seed=spec.seed)
        for index, (lines, texts) in enumerate(parts(records, look_sizes() if spec.looks else ())):
            columns = [
                pa.array(range(rows, rows + len(texts)), pa.int64()),
                pa.array(lines, pa.int64()),
                pa.array(texts),
            ]
            writer.write(index, pa.Table.from_arrays(columns, schema=RAW.arrow))
            rows += len(texts)
            run.advance(rows, None)
    run.commit(RAW)


def parts(records: Iterable[tuple[int, str]], ends: Iterable[int] = ()) -> Iterator[tuple[list[int], list[str]]]:
    """Records cut into parts of at most `PART_ROWS` rows and about `PART_BYTES` of text, and at ``ends``."""
    lines: list[int] = []
    texts: list[str] = []
    size = 0
    following = iter(ends)
    end = next(following, None)
    for row, (line, text) in enumerate(records):
        is_end = row == end
        if is_end:
            end = next(following, None)
        if texts and (is_end or len(texts) >= PART_ROWS or size + len(text) > PART_BYTES):
            yield lines, texts
            lines, texts, size = [], [], 0
        lines.append(line)
        texts.append(text)
        size += len(text)
    if texts:
        yield lines, texts
