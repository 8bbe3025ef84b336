"""The names under which numbers are shown."""

# Value keys and aggregations that say no more than the metric's name does.
_PLAIN_KEYS = frozenset({"score", "acc", "anls", "latency_ms", "length"})
_PLAIN_AGGREGATIONS = frozenset({"mean", "weighted_mean", "ratio", "perplexity"})


def metric_name(metric_id: str, filter_name: str | None, value_key: str, aggregation: str) -> str:
    """As a number is shown.

    >>> metric_name("gsm8k", "strict-match", "score", "mean"), metric_name("latency", None, "latency_ms", "p95")
    ('gsm8k,strict-match', 'latency p95')
    """
    name = metric_id if filter_name is None else f"{metric_id},{filter_name}"
    if value_key not in _PLAIN_KEYS and value_key != metric_id:
        name = f"{name} {value_key}"
    plain = aggregation in _PLAIN_AGGREGATIONS or aggregation.startswith("corpus_")
    return name if plain else f"{name} {aggregation}"
