"""Generates docs/events.md from the classes of the events.

python -m tools.events_page    write the page
"""

import inspect
import logging
import re
from collections.abc import Iterator
from pathlib import Path

from gage_eval.observability import events, sample_events
from gage_eval.observability.events import Event, payload_fields
from tools.markdown import cell, prose, text

PAGE = Path(__file__).resolve().parents[1] / "docs" / "events.md"

_HEAD = """# Events

Made from the code by `python -m tools.events_page`; change a text there, not on this page.

`events.jsonl` in the folder of a run says what happened, one JSON object per line. A run never reads it. It is for
people and programs that follow a run; results are in `summary.json` and in the store.

```json
{"event_id": "f07d075e358df5ff0000000013", "time": "2026-11-22T18:53:46.165+00:00", "type": "retry",
 "run_id": "calm-heron", "task_id": "gsm8k", "stage": "infer", "sample_id": "gsm8k-17",
 "payload": {"replicate": 0, "attempt": 1, "kind": "rate_limited", "message": "429 (rate limited)", "wait_s": 1.03}}
```

| key | |
|---|---|
| `event_id` | unique among all events of all runs |
| `time` | when it happened, UTC |
| `type` | one of the types below, which decides the keys of the payload |
| `run_id` | the run |
| `task_id`, `stage`, `sample_id` | where it happened; null where it belongs to none |
| `payload` | what happened |

No event holds a prompt, an answer or a reference. They are in the run's tables, by sample id (`gage show RUN --sample
ID`).

A resumed run appends to the same file. A kill loses the events of the last 0.2 seconds. On S3 the file is uploaded
about every 10 seconds while the run is running. If events come faster than they can be written, those of samples,
parts, progress and logs are left out, and `events_dropped` counts them. Stages never wait for events.

## Which samples

`sample_answered` and `sample_scored` are written for 1 % of the samples, and always for errors. The same samples are
chosen in every stage and run, by their ids. In a config:

```yaml
observability:
  sample_rate: 0.1 # share of the samples
  stage_sample_rates: {infer: 1.0} # of single stages
```

`GAGE_EVAL_OBSERVABILITY=1` makes every sample an event.

## Where else events go

```yaml
observability:
  level: INFO # DEBUG adds progress and parts
  sinks:
    - {type: file, output_path: more.jsonl} # in the run's folder, or an absolute path
    - {type: console} # standard error
    - type: http
      url: https://events.example/ingest
      params: {batch: 50, timeout: 10, fail_pct: 5, headers: {Authorization: env:EVENTS_AUTHORIZATION}}
    - {type: otel, url: "http://127.0.0.1:4318"} # an OpenTelemetry collector
```

**HTTP.** Each batch is a POST of `{"events": [...]}`; any status of 2xx means that it arrived. A batch that fails
three times, or takes longer than `timeout`, goes to `events_unsent.jsonl` in the run's folder. When more than
`fail_pct` percent of the batches failed (of at least 20), nothing more is sent. The recorder works in a separate
thread. At the end of the run it gets the time of one request to send what is left. A batch whose answer was lost may
arrive twice: compare `event_id`. The variables `GAGE_EVAL_REPORT_HTTP_URL`, `_BATCH`, `_TIMEOUT` and `_FAIL_PCT` set
one up without a config.

**Log messages** of gage-eval's loggers are events of the type `log`: from INFO on, or from `GAGE_EVAL_LOG_SINK_LEVEL`
on. `GAGE_EVAL_ENABLE_LOG_SINK=0` turns that off. A plug-in that logs to `logging.getLogger("gage_eval.plugins.NAME")`
takes part.

**OpenTelemetry** needs the extra `otel`. A run, its tasks and its stages are spans; so is each answer that was asked
and is an event, as `chat MODEL` with the `gen_ai.…` attributes of the semantic conventions. The metrics
`gen_ai.client.operation.duration`, `gen_ai.client.token.usage` and `gage_eval.retries` count all requests.
`gage_eval.run.duration`, `gage_eval.run.tokens`, `gage_eval.run.cost` and `gage_eval.run.gpu_time` add up what runs
took, by run (`gage_eval.run_id`) and by suite or config (`gage_eval.config`). `gage_eval.run.queued`,
`gage_eval.engine.start` and `gage_eval.engine.out_of_memory` say what they waited for. A collector hands them on to
Prometheus. The scores are `gen_ai.evaluation.result` events of the run's span. `GAGE_EVAL_OTEL=1` sends them to the
collector that the usual `OTEL_…` variables name.

## Types
"""

_ATTRIBUTE = re.compile(r"^    (\w+): (.+(?:\n        .+)*)", re.MULTILINE)


def page() -> str:
    """The page as it should be."""
    return _HEAD + "\n".join(_lines()) + "\n"


def types() -> list[type[Event]]:
    """All types of events, in the order of their modules."""
    classes = [value for module in (events, sample_events) for value in vars(module).values() if inspect.isclass(value)]
    return list(dict.fromkeys(cls for cls in classes if issubclass(cls, Event) and "name" in vars(cls)))


def _lines() -> Iterator[str]:
    for event in types():
        yield ""
        yield f"### {event.name}"
        yield ""
        yield f"{text(event)} Level: {_level(event)}."
        documented = _documented(event)
        shown = [name for name in (*payload_fields(event), *documented) if name in documented]
        if shown:
            yield ""
            yield "| payload | |"
            yield "|---|---|"
        for name in dict.fromkeys(shown):
            yield f"| `{name}` | {cell(prose(documented[name]))} |"


def _documented(event: type[Event]) -> dict[str, str]:
    """What the docstrings say of an event's attributes, and of the fields that it inherits."""
    texts: dict[str, str] = {}
    for cls in (event, *event.__mro__[1:]):
        for name, words in _ATTRIBUTE.findall(inspect.cleandoc(cls.__doc__ or "")):
            if cls is event or name in payload_fields(event):
                texts.setdefault(name, " ".join(words.split()))
    return texts


def _level(event: type[Event]) -> str:
    if "severity" in vars(event):
        return "that of the message" if event is events.LogRecorded else "INFO, or ERROR"
    return logging.getLevelName(event.default_severity)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
