"""What a task's verdicts cost, by the prices of the judges' backends. Prices are in no key, so no stage computes it."""

import math
from collections.abc import Mapping

import pyarrow.compute as pc

from gage_eval.models.client.episode_limits import Price
from gage_eval.pipeline.judge_spec import JudgeSpec
from gage_eval.pipeline.outputs import is_of
from gage_eval.store import Artifact, Store


def judging_cost(store: Store, spec: JudgeSpec, outputs: Mapping[str, str]) -> float | None:
    """The cost of all verdicts, whenever they were asked for; None without prices or tokens.

    Args:
        store: where the responses are.
        spec: the judges.
        outputs: artifact ids by output of the judge stage.
    """
    prices = {output: judge.price for judge in spec.judges for output in spec.outputs_of(judge)}
    costs = [
        _cost(store.artifact(id_), price)
        for output, price in prices.items()
        if price != Price()
        for name, id_ in outputs.items()
        if is_of(name, output)
    ]
    return math.fsum(costs) or None


def _cost(responses: Artifact, price: Price) -> float:
    """The cost of responses, each question once."""
    columns = ["response_key", "prompt_tokens", "completion_tokens"]
    once = responses.table(columns=columns).group_by("response_key").aggregate([(name, "max") for name in columns[1:]])
    prompt, completion = (pc.sum(once[f"{name}_max"]).as_py() or 0 for name in columns[1:])
    return price.of(prompt, completion)
