"""The names of the stages' outputs, and which of them belong together."""

import re
from collections.abc import Iterator, Mapping

_RESPONSES = {"support": "support_responses", "dut_model": "responses", "judge_model": "judge_responses"}
_RECEIVED = "received_"
SECOND_ASKS = "second_asks"
"""What a second judge is asked."""


def responses_of(role: str) -> str:
    """The output that holds the responses of a task's own model in a role."""
    return _RESPONSES[role]


def of_other_judge(adapter_id: str) -> str:
    """The output that holds the responses of a judge that only samples name."""
    return f"judge_{adapter_id}_responses"


def of_second(adapter_id: str) -> str:
    """The output that holds the responses of a second judge."""
    return f"second_judge_{adapter_id}_responses"


def of_retry(responses: str, draw: int) -> str:
    """The output that holds a judge's responses to what was asked again."""
    return f"{responses.removesuffix('_responses')}_retry_{draw}_responses"


def is_of(name: str, responses: str) -> bool:
    """Whether an output holds a judge's responses, or those to what it was asked again."""
    retry = rf"{re.escape(responses.removesuffix('_responses'))}_retry_\d+_responses"
    return name == responses or re.fullmatch(retry, name) is not None


def received(responses: str) -> str:
    """The output with the raw responses, before an adapter parses them."""
    return f"{_RECEIVED}{responses}"


def telemetry_of(responses: str) -> str:
    """The output with the telemetry of responses, parsed or raw."""
    return f"{responses.removeprefix(_RECEIVED).removesuffix('s')}_telemetry"


def with_telemetry(outputs: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(id of responses, id of their telemetry) of a stage's outputs; of parsed responses without those that came."""
    for name, id_ in outputs.items():
        telemetry = outputs.get(telemetry_of(name))
        if telemetry is not None and not name.startswith(_RECEIVED):
            yield id_, telemetry


def table_of(output: str) -> str:
    """The table schema of an output. Outputs with responses and telemetry are named after their role."""
    for table in ("response_telemetry", "responses", "rejects", "asks"):
        if output.endswith(table):
            return table
    return output
