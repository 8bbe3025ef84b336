"""standardize: raw records → samples of one contract; what is no sample goes to rejects, with the reason."""

from collections.abc import Callable
from typing import Any

from gage_eval import registry
from gage_eval.errors import InputError
from gage_eval.planning.specs import StandardizeSpec
from gage_eval.prepare.media import media_of, without_data, without_data_urls
from gage_eval.sample.record import RecordRejected, content_id, parse_record
from gage_eval.sample.rules import normalise_sample
from gage_eval.sample.table import samples_to_table
from gage_eval.stages.base import StageRun, stage
from gage_eval.stages.rejects import limit_on_rejects, rejects_table
from gage_eval.stages.sample_ids import SampleIds
from gage_eval.standardize.callables import attach
from gage_eval.standardize.compose import build
from gage_eval.store.media import Media, addresses_in
from gage_eval.tables import REJECTS, SAMPLES


@stage(
    "standardize",
    check=limit_on_rejects(
        "samples", "rejects", wrong="records are no samples", none="none of its {total} records is a sample"
    ),
)
def standardize(run: StageRun, spec: StandardizeSpec) -> None:
    """Turn raw records into Samples.

    Args:
        run: the ``raw`` artifact, one JSON record a row.
        spec: preprocessor and its parameters; part of the key.

    Raises:
        InputError: two records carry the same explicit id.
    """
    to_sample = build(registry.preprocessors.get(spec.preprocess), spec.kwargs)
    if spec.text is not None:
        to_sample = spec.text.before(to_sample)
    raw = run.input("raw")
    samples, rejects = run.writer(SAMPLES), run.writer(REJECTS)
    ids = SampleIds()
    media = configured = 0
    with run.env.store.media.keeper(run.env.media_threads) as store:
        for part in raw.parts:
            table = raw.read(part.index)
            texts = table["record"].to_pylist()
            store.look({url for text in texts for url in addresses_in(text)})
            rows = table["row_index"].to_pylist()
            lines = table["line"].to_pylist()
            good: list[dict[str, Any]] = []
            good_rows: list[int] = []
            good_lines: list[int] = []
            unnamed: list[dict[str, Any]] = []
            bad: list[tuple[int, int, str, str, str]] = []
            for row, line, text in zip(rows, lines, texts, strict=True):
                try:
                    sample, named = to_standard(text, to_sample)
                    sample = with_media(sample, text, spec, store)
                except RecordRejected as error:
                    bad.append((row, line, "standardize", error.reason, text))
                    continue
                if not named:
                    unnamed.append(sample)
                good.append(sample)
                good_rows.append(row)
                good_lines.append(line)
            for sample, name in zip(unnamed, ids.of_contents([sample["id"] for sample in unnamed]), strict=True):
                sample["id"] = name
            ids.add([sample["id"] for sample in good], good_lines)
            ready = samples_to_table(good, good_rows)
            samples.write(part.index, ready)
            media += len(media_of(ready))
            configured += len(ready) - ready.column("eval_config").null_count
            rejects.write(part.index, rejects_table(bad))
            run.progress(rows[-1] + 1 if rows else 0, raw.rows)
    if clash := ids.clash():
        first, second = clash
        raise InputError(
            f"dataset '{spec.dataset_id}': lines {first:,} and {second:,} carry the same id. "
            "Ids must be unique; drop them to have ids made from the content."
        )
    # Later stages look for files and overrides only where there are some; a count of none is left out.
    counts = {"media": media, "eval_config": configured}
    run.commit(SAMPLES, counts={name: count for name, count in counts.items() if count})
    run.commit(REJECTS)


def to_standard(text: str, to_sample: Callable[[dict[str, Any]], dict[str, Any]]) -> tuple[dict[str, Any], bool]:
    """The canonical sample of one raw record, and whether the record names its id (else it is the text's hash).

    Raises:
        RecordRejected: it is no JSON object, or the preprocessor or the contract refuses it.
    """
    record = to_sample(parse_record(text))
    sample = normalise_sample(record, default_id=content_id(text.encode()))
    return sample, record.get("id") is not None


def with_media(sample: dict[str, Any], text: str, spec: StandardizeSpec, store: Media) -> dict[str, Any]:
    """The sample with the media that ``doc_to_*`` give it, and with all data of its media kept in the store.

    Raises:
        RecordRejected: a callable fails on it, its data cannot be decoded, or it names media that the store lacks.
    """
    # A record that says so nowhere holds no data; its preprocessor and the callables may still make some for messages.
    if "data:" in text:
        rest = {name: value for name, value in sample.items() if name not in ("messages", "few_shot_examples")}
        sample = {**sample, **without_data(rest, store)}
    sample = attach(sample, spec.callables, store)
    sample = {**sample, "messages": without_data_urls(sample["messages"], store)}
    if examples := sample.get("few_shot_examples"):
        cleaned = [{**shot, "messages": without_data_urls(shot["messages"], store)} for shot in examples]
        sample["few_shot_examples"] = cleaned
    return sample
