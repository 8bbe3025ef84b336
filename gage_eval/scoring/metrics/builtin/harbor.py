"""The reward that the tests of a Harbor task give."""

import math

from gage_eval.base.canonical import JsonValue, decode
from gage_eval.scoring.metrics.base import Score, metric

_FIELDS = {name: f"execution.{name}" for name in ("stdout", "status", "reason", "text")}


@metric("harbor_reward", version=1, fields=_FIELDS)
def harbor_reward(stdout: str, status: str, reason: str = "", text: str = "", *, key: str = "reward") -> Score:
    """The reward that the tests of a Harbor task wrote: `reward.json` if it is there, else `reward.txt`.

    Of several rewards in `reward.json` that under ``key`` counts; a single one may have any name. Tests that write no
    finite number give no score, which is not 0. A final state that the tests do not get has 0.
    """
    reward = _reward(stdout, key)
    if reward is not None:
        return Score(reward, explanation=None if status == "passed" else text or None)
    if status == "box_error":
        return Score.unscored(text or "the box failed", reason="box_error")
    if (status == "failed" and reason.startswith("exit ")) or status in ("timed_out", "out_of_memory"):
        said = f"the tests wrote no reward '{key}'" if stdout.strip() else text or reason
        return Score.unscored(f"the tests gave no reward: {said}", reason="not_measured")
    return Score(0.0, explanation=f"{status}: {text or reason}")


def _reward(stdout: str, key: str) -> float | None:
    try:
        read: JsonValue = decode(stdout)
    except ValueError:
        return None
    if isinstance(read, dict):
        read = read.get(key, next(iter(read.values())) if len(read) == 1 else None)
    is_number = isinstance(read, int | float) and not isinstance(read, bool) and math.isfinite(read)
    return float(read) if is_number and isinstance(read, int | float) else None
