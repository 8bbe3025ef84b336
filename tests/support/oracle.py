"""A backend that finds one candidate of each question likely: the right one, or a wrong one."""

import json
from pathlib import Path

from gage_eval.base.marks import semantic
from gage_eval.extend.registry import backends
from gage_eval.models.backends.base import BackendConfig, BaseBackend
from gage_eval.models.client.types import Request, Response


class OracleConfig(BackendConfig):
    """What it knows."""

    path: str = semantic("infer", description="JSON: sample id → positions of the candidates that are likely.")


@backends.register("oracle", version=1, config=OracleConfig)
class Oracle(BaseBackend[OracleConfig]):
    """Gives the candidates at known positions a probability, and the others none worth mentioning."""

    type = "oracle"
    capabilities = frozenset({"likelihood"})

    async def call(self, request: Request, body: bytes) -> Response:
        likely = self._known().get(request.sample_id, [0])
        assert request.choices is not None
        choices = [
            {"ll": -1.0 if position in likely else -1000.0, "is_greedy": position in likely, "tokens": 1}
            for position in range(len(request.choices))
        ]
        return Response("ok", logprobs=json.dumps({"choices": choices}), attempts=1)

    def _known(self) -> dict[str, list[int]]:
        known: dict[str, list[int]] = json.loads(Path(self.config.path).read_text(encoding="utf-8"))
        return known
