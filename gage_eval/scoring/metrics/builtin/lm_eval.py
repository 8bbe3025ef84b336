"""What the lm-eval harness itself says about an answer."""

import json
import math
from functools import lru_cache
from typing import Any, Literal, TypeAlias, get_args

from gage_eval.base.canonical import JsonValue
from gage_eval.scoring.harness import client
from gage_eval.scoring.metrics.base import Score, metric
from gage_eval.scoring.metrics.likelihoods import read_likelihoods

Kind: TypeAlias = Literal["right", "score", "loss", "perplexity", "bits", "corpus", "corpus_loss"]


@metric(
    "lm_eval",
    value=get_args(Kind),
    chosen_by="kind",
    aggregate={"perplexity": "perplexity", "bits": "ratio", "corpus": "lm_eval", "corpus_loss": "lm_eval"},
    binary=("right",),
    higher_is_better={"loss": False, "perplexity": False, "bits": False, "corpus_loss": False},
    bounds={"perplexity": (1, None), "bits": (0, None)}
    | dict.fromkeys(("score", "loss", "corpus", "corpus_loss"), (None, None)),
    version=3,
    libraries=("lm-eval",),
    fields={
        "document": "sample.metadata.document",
        "answer": "model_output.answer",
        "logprobs": "model_output.logprobs",
    },
    alternatives=False,
)
def lm_eval(
    document: Any,
    answer: Any = None,
    logprobs: Any = None,
    *,
    task: str,
    value: str,
    kind: Kind,
    sources: str,
    pipeline: str = "none",
) -> Score:
    """A number of a task of the lm-eval harness, by the task's own filters and ``process_results``.

    ``gage suite lm-eval:NAME`` writes its parameters: the ``task``, the number (``value``) and the filter
    (``pipeline``) that it is of, and ``sources``, the sha256 of the ``harness.json`` next to the config, which has the
    hash of every file that the task was read from and the commits of its data. ``kind`` says how rows
    become one number: the mean of values that are 0 or 1 (``right``), of others (``score``, or ``loss`` where less is
    better), exp(−Σll/Σsize) (``perplexity``), −Σll/(Σbytes · ln 2) (``bits``), or the task's own aggregation of all
    rows (``corpus``, or ``corpus_loss`` where less is better). Rows of the latter have the value 1 where both parts of
    a pair are equal, else 0. A document for which the task gives no value has no score, as in the harness. The harness
    runs in a separate process.
    """
    responses = _responses(answer, logprobs)
    if not responses:
        return Score.unscored("the response has neither an answer nor log-likelihoods", reason="missing_field")
    try:
        values = _values(sources, task, json.dumps(document), json.dumps(responses))
    except client.HarnessError as error:
        return Score.unscored(str(error))
    of_document = values.get(pipeline, {})
    if value not in of_document:
        return Score.unscored(f"the harness gave no {value} for this document", reason="not_measured")
    number = of_document[value]
    if kind in ("corpus", "corpus_loss"):
        equal = isinstance(number, list) and len(number) == 2 and number[0] == number[1]
        return Score({kind: float(equal)}, extracted=json.dumps(number))
    if kind in ("perplexity", "bits"):
        return _of_corpus(kind, number)
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        return Score.unscored(f"the harness gave {str(number)[:80]} for {value}, not a number")
    return Score({kind: float(number)})


@lru_cache(maxsize=4096)
def _values(sources: str, task: str, document: str, responses: str) -> dict[str, dict[str, Any]]:
    """All numbers of a document. Several metrics ask for them, each for all rows of a part."""
    return client.score(sources, task, json.loads(document), json.loads(responses))


def _responses(answer: Any, logprobs: JsonValue) -> list[Any]:
    """What the model said to each request about the document, in the order of the harness."""
    choices = [*read_likelihoods(logprobs), *read_likelihoods(logprobs, "unconditioned")]
    if choices:
        return [[choice.ll, bool(choice.is_greedy)] for choice in choices]
    return [answer] if isinstance(answer, str) else []


def _of_corpus(kind: str, number: JsonValue) -> Score:
    """A log-likelihood, with the words or bytes that it is of."""
    ll, size = number if isinstance(number, list) and len(number) == 2 else (number, 1)
    if not all(isinstance(part, int | float) and math.isfinite(part) for part in (ll, size)) or not size > 0:
        return Score.unscored(f"the harness gave {str(number)[:80]}, not a log-likelihood")
    if kind == "bits":
        bits = -ll / math.log(2)
        return Score({kind: bits / size}, components={kind: [bits, size]})
    return Score({kind: math.exp(min(-ll / size, 700.0))}, components={kind: [ll, size]})
