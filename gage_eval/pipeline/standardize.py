"""standardize: raw records → samples in one form. Records that cannot become samples go to rejects, with the reason."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from gage_eval.base.errors import InputError
from gage_eval.base.tables import REJECTS, SAMPLES
from gage_eval.data.prepare.media import media_of, without_data, without_data_urls
from gage_eval.data.prepare.options import lacks_options
from gage_eval.data.sample.record import RecordRejected, content_id, parse_record
from gage_eval.data.sample.rules import normalise_sample
from gage_eval.data.sample.table import samples_to_table
from gage_eval.data.standardize.callables import AdapterFailed, attach
from gage_eval.data.standardize.compose import build
from gage_eval.data.standardize.inputs import with_inputs
from gage_eval.extend import registry
from gage_eval.pipeline.action import StageRun, stage
from gage_eval.pipeline.rejects import limit_on_rejects, rejects_table
from gage_eval.pipeline.sample_ids import SampleIds
from gage_eval.pipeline.specs import StandardizeSpec
from gage_eval.pipeline.watching import tell_rejects
from gage_eval.store.media import Media, MediaKeeper, urls_in


@stage(
    "standardize",
    check=limit_on_rejects(
        "samples", "rejects", wrong="records were rejected", none="all of its {total} records were rejected"
    ),
)
def standardize(run: StageRun, spec: StandardizeSpec) -> None:
    """Turn raw records into Samples.

    Args:
        run: reads ``raw``, one JSON record per row; writes ``samples`` and ``rejects``.
        spec: the preprocessor and its parameters; part of the key.

    Raises:
        InputError: two records have the same id.
    """
    raw = run.input("raw")
    samples, rejects = run.writer(SAMPLES), run.writer(REJECTS)
    counts: Counter[str] = Counter()
    with run.env.store.media.keeper(run.env.media_threads) as media:
        standardizer = Standardizer(spec, media)
        for part in raw.parts:
            records = raw.read(part.index)
            ready, rejected = standardizer.standardize(records)
            samples.write(part.index, ready.table)
            rejects.write(part.index, rejected)
            tell_rejects(run, rejected, {}, standardizer.adapters_failed)
            counts.update(ready.counts)
            run.advance(records["row_index"][-1].as_py() + 1 if len(records) else 0, raw.rows)
    standardizer.check_ids()
    # Later stages search for files, overrides and the like only if their count is given; zero counts are left out.
    run.commit(SAMPLES, counts=dict(+counts))
    run.commit(REJECTS)


class _NamedSample(NamedTuple):
    """A record as a Sample, and whether the record has an id."""

    row: int
    line: int
    sample: dict[str, Any]
    named: bool


class _SampleRows(NamedTuple):
    """`tables.SAMPLES` rows, and how many of them have media, overrides, or options that no message shows."""

    table: pa.Table
    counts: dict[str, int]


class Standardizer:
    """Makes `tables.SAMPLES` rows from raw records, part by part. Ids are unique across all parts.

    Attributes:
        adapters_failed: the callables of the config that failed in the last part, by row index.
    """

    def __init__(self, spec: StandardizeSpec, media: MediaKeeper) -> None:
        to_sample = build(registry.preprocessors.get(spec.preprocess), spec.kwargs)
        self._to_sample = to_sample if spec.text is None else spec.text.before(to_sample)
        self._spec = spec
        self._media = media
        self._ids = SampleIds()
        self.adapters_failed: dict[int, str] = {}

    def standardize(self, records: pa.Table) -> tuple[_SampleRows, pa.Table]:
        """Samples and `tables.REJECTS` rows of raw records, both in the records' order."""
        rows, lines, texts = (records[name].to_pylist() for name in ("row_index", "line", "record"))
        self._media.look(urls_in(records["record"]))
        good: list[_NamedSample] = []
        bad: list[tuple[int, int, str, str]] = []
        self.adapters_failed = {}
        for row, line, text in zip(rows, lines, texts, strict=True):
            try:
                sample, named = to_standard(text, self._to_sample)
                good.append(_NamedSample(row, line, with_media(sample, text, self._spec, self._media), named))
            except RecordRejected as error:
                if isinstance(error, AdapterFailed):
                    self.adapters_failed[row] = error.adapter
                bad.append((row, line, error.reason, text))
        self._assign_ids(good)
        table = samples_to_table([item.sample for item in good], [item.row for item in good])
        counts = {
            "media": len(media_of(table)),
            "eval_config": len(table) - table.column("eval_config").null_count,
            "unlisted_options": sum(_lacks_options(item.sample) for item in good),
        }
        return _SampleRows(table, counts), self._rejects(bad)

    def _rejects(self, bad: Sequence[tuple[int, int, str, str]]) -> pa.Table:
        """`tables.REJECTS` of (row_index, line, reason, record) rows; of several files with the line in the file."""
        several = bad and len(self._spec.source_files) > 1 and self._spec.load is not None
        located = self._spec.load.located(line for _, line, *_ in bad) if several and self._spec.load else {}
        return rejects_table(
            [(row, *located.get(line, (None, line)), "standardize", reason, text) for row, line, reason, text in bad]
        )

    def check_ids(self) -> None:
        """Refuse duplicate ids.

        Raises:
            InputError: two records have the same id; the message names the lines.
        """
        if clash := self._ids.clash():
            first, second = self._located(clash)
            raise InputError(
                f"dataset '{self._spec.dataset_id}': {first} and {second} have the same id. Ids must be unique: name "
                "another field with id_field, or leave ids out to derive them from the content."
            )

    def _located(self, clash: tuple[int, int]) -> tuple[str, str]:
        """The places of two lines, as ``line 3 of a.jsonl``."""
        located = self._spec.load.located(clash) if self._spec.load is not None else {}
        places = [located.get(line, (None, line)) for line in clash]
        first, second = (f"line {line:,}{f' of {file}' if file else ''}" for file, line in places)
        return first, second

    def _assign_ids(self, made: list[_NamedSample]) -> None:
        unnamed = [item.sample for item in made if not item.named]
        for sample, name in zip(unnamed, self._ids.of_contents([sample["id"] for sample in unnamed]), strict=True):
            sample["id"] = name
        self._ids.add([item.sample["id"] for item in made], [item.line for item in made])


def _lacks_options(sample: dict[str, Any]) -> bool:
    examples = sample.get("few_shot_examples")
    return lacks_options(sample) or (examples is not None and any(map(lacks_options, examples)))


def to_standard(text: str, to_sample: Callable[[dict[str, Any]], dict[str, Any]]) -> tuple[dict[str, Any], bool]:
    """The canonical sample of one raw record, and whether the record has an id (else the id is the text's hash).

    Raises:
        RecordRejected: it is not a JSON object, or the preprocessor or the Sample rules refuse it.
    """
    record = with_inputs(to_sample(parse_record(text)))
    named = record.get("id") is not None
    return normalise_sample(record, default_id=None if named else content_id(text.encode())), named


def with_media(sample: dict[str, Any], text: str, spec: StandardizeSpec, store: Media) -> dict[str, Any]:
    """The sample with the media from ``doc_to_*``, and with all media data moved to the store.

    Raises:
        RecordRejected: a callable fails, media data cannot be decoded, or the store lacks media that the sample names.
    """
    # Without this text, the record has no data URLs. The preprocessor and callables may still put some into messages.
    if "data:" in text:
        rest = {name: value for name, value in sample.items() if name not in ("messages", "few_shot_examples")}
        sample = {**sample, **without_data(rest, store)}
    sample = attach(sample, spec.callables, store)
    sample["messages"] = without_data_urls(sample["messages"], store)
    if examples := sample.get("few_shot_examples"):
        cleaned = [{**shot, "messages": without_data_urls(shot["messages"], store)} for shot in examples]
        sample["few_shot_examples"] = cleaned
    return sample
