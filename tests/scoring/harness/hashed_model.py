"""A model without weights: what it says is a function of what it is asked. As a backend, and as a model of the harness.

Run as a script it evaluates a task with the harness itself and prints the results as JSON.
"""

import hashlib
import json
import sys
from typing import Any


def number(*texts: str) -> int:
    """A number that depends on the texts."""
    return int.from_bytes(hashlib.sha256("\0".join(texts).encode()).digest()[:4], "big")


def log_likelihood(context: str, continuation: str) -> tuple[float, bool]:
    """In nats, with 20 binary digits, so that sums are exact; and whether it is greedy."""
    value = number(context, continuation)
    return -(value % 2**20) / 2**10 - 0.5, bool(value & 1)


def text(prompt: str) -> str:
    """Sometimes as a task wants it."""
    value = number(prompt) % 5
    return f"So we get #### {value}." if number(prompt, "form") % 3 else f"The answer is ({'ABCDE'[value]}) or {value}."


if __name__ != "__main__":
    from gage_eval.plugins import BackendConfig, BaseBackend, Request, Response, backend

    @backend("hashed", version=1, config=BackendConfig)
    class Hashed(BaseBackend[BackendConfig]):
        """The model as a backend."""

        type = "hashed"
        capabilities = frozenset({"completion", "likelihood"})

        async def call(self, request: Request, body: bytes) -> Response:
            if request.kind == "completion":
                return Response("ok", answer=text(request.prompt or ""), attempts=1)

            def entries(context: str) -> list[dict[str, Any]]:
                pairs = [log_likelihood(context, choice) for choice in request.choices or []]
                return [{"ll": ll, "is_greedy": greedy, "tokens": 1} for ll, greedy in pairs]

            told = {"choices": entries(request.prompt or "")}
            if request.unconditioned is not None:
                told["unconditioned"] = entries(request.unconditioned)
            return Response("ok", logprobs=json.dumps(told), attempts=1)


def main() -> None:
    """``hashed_model.py NAME FOLDER``: the results of the harness."""
    from lm_eval import simple_evaluate
    from lm_eval.api.model import LM
    from lm_eval.tasks import TaskManager

    from gage_eval.scoring.harness.worker import _index

    class OfHarness(LM):  # type: ignore[misc]
        def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
            return [log_likelihood(*request.args) for request in requests]

        def loglikelihood_rolling(self, requests: list[Any]) -> list[float]:
            return [log_likelihood("", *request.args)[0] for request in requests]

        def generate_until(self, requests: list[Any]) -> list[str]:
            return [text(request.args[0]) for request in requests]

    manager = TaskManager(include_defaults=False, include_path=sys.argv[2])
    # The harness's own index, which takes long to read.
    manager.task_index.update({**_index(), **manager.task_index})
    results = simple_evaluate(OfHarness(), tasks=[sys.argv[1]], task_manager=manager, bootstrap_iters=0)
    sys.stdout.write(json.dumps({name: results[name] for name in ("results", "groups")}))


if __name__ == "__main__":
    main()
