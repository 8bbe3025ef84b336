"""The probe tells an engine that repeats its answers from one whose answers depend on the crowd."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gage_eval.base.errors import EndpointFailed, InputError
from gage_eval.engine.probe import PROMPTS, Verdict, probe, probe_identity, probed
from gage_eval.models.backends.base import BackendConfig, BackendContext, BaseBackend
from gage_eval.models.client.types import Request, Response
from gage_eval.store import Store

CROWD = 64


class Crowded(BaseBackend[BackendConfig]):
    """A stand-in: it answers when all that were sent have arrived, and knows with how many others each was."""

    type = "crowded"

    def __init__(self, answer: Callable[[int, int], Response], cap: int = CROWD, *can: str) -> None:
        super().__init__(BackendConfig(max_concurrency=cap), BackendContext())
        self.capabilities = frozenset(can or ("chat", "logprobs"))
        self._answer = answer
        self._inside = 0
        self.peaks: list[int] = []
        self.kinds: set[str] = set()

    async def call(self, request: Request, body: bytes) -> Response:
        self._inside += 1
        self.kinds.add(request.kind)
        for _ in range(3):
            await asyncio.sleep(0)
        crowd = self._inside
        self.peaks.append(crowd)
        for _ in range(3):
            await asyncio.sleep(0)
        self._inside -= 1
        return self._answer(int(request.sample_id.removeprefix("probe-")), crowd)


def said(text: str, *logprobs: float) -> Response:
    content = [{"token": word, "logprob": value} for word, value in zip(text.split(), logprobs, strict=False)]
    told = json.dumps({"content": content}) if content else None
    return Response("ok", answer=text, logprobs=told, model_fingerprint="m fp1")


def verdict_of(answer: Callable[[int, int], Response], cap: int = CROWD, *can: str) -> Verdict:
    return asyncio.run(probe(Crowded(answer, cap, *can), {"model": "m"}))


def test_there_are_64_different_prompts_of_different_lengths() -> None:
    assert len(set(PROMPTS)) == 64
    assert max(map(len, PROMPTS)) > 10 * min(map(len, PROMPTS))


def test_an_engine_whose_answers_do_not_depend_on_the_crowd_is_exact() -> None:
    backend = Crowded(lambda at, crowd: said(f"a {at}", -0.5, -0.25))
    verdict = asyncio.run(probe(backend, {"model": "m"}))
    assert (verdict.verdict, verdict.fingerprints) == ("exact", ("m fp1",))
    assert [(crowd.size, crowd.changed, crowd.largest_gap) for crowd in verdict.crowds] == [(8, 0, 0), (64, 0, 0)]
    assert "log probabilities to 64 prompts are the same alone and 8 and 64 at once" in verdict.text


def test_a_crowd_stays_together_and_alone_is_alone() -> None:
    backend = Crowded(lambda at, crowd: said("a"))
    asyncio.run(probe(backend, {}))
    assert backend.peaks == [*[1] * 64, *[8] * 72, *[64] * 128]


@pytest.mark.parametrize(
    ("answer", "verdict", "changed", "gap"),
    [
        # The last bit of one log probability in the large crowd.
        (lambda at, crowd: said("a b", -0.5, -0.25 - (1e-12 if crowd > 8 and at == 5 else 0)), "near", 0, 1e-12),
        # Another word at a near tie, for three prompts.
        (lambda at, crowd: said("a c" if crowd > 8 and at < 3 else "a b", -0.5, -0.25), "near", 3, 0),
        # The texts are the same, the numbers are not those of the same model.
        (lambda at, crowd: said("a b", -0.5, -0.25 - 0.3 * (crowd > 1)), "drifting", 0, 0.3),
        # Half of the answers depend on the crowd.
        (lambda at, crowd: said(f"a {crowd if at % 2 else 1}", -0.5), "drifting", 32, 0),
    ],
)
def test_an_engine_whose_answers_depend_on_the_crowd_is_found(
    answer: Callable[[int, int], Response], verdict: str, changed: int, gap: float
) -> None:
    result = verdict_of(answer)
    assert (result.verdict, result.crowds[-1].changed) == (verdict, changed)
    assert result.crowds[-1].largest_gap == pytest.approx(gap, rel=1e-3)
    assert result.text.startswith(f"{verdict}: {changed} of 64 answers differ")


def test_log_probabilities_are_compared_only_up_to_the_first_other_token() -> None:
    result = verdict_of(lambda at, crowd: said("a b d", -1, -2, -3) if crowd == 1 else said("a c d", -1, -9, -9))
    assert result.crowds[0].largest_gap == 0


def test_without_log_probabilities_texts_are_compared_and_that_is_said() -> None:
    result = verdict_of(lambda at, crowd: said("a"), CROWD, "chat")
    assert (result.verdict, result.crowds[0].largest_gap) == ("exact", None)
    assert "it gives no log probabilities" in result.text


def test_an_engine_without_log_probabilities_of_answers_is_asked_for_likelihoods() -> None:
    def answer(at: int, crowd: int) -> Response:
        choices = {"choices": [{"ll": -5.0 - 1e-6 * (crowd > 1), "tokens": 4}]}
        return Response("ok", answer="a", logprobs=json.dumps(choices))

    backend = Crowded(answer, CROWD, "completion", "likelihood")
    result = asyncio.run(probe(backend, {}))
    assert backend.kinds == {"completion", "likelihood"}
    assert (result.verdict, result.crowds[0].largest_gap) == ("near", pytest.approx(1e-6, rel=1e-3))


def test_a_model_that_takes_few_requests_at_once_is_asked_as_many_as_it_takes() -> None:
    result = verdict_of(lambda at, crowd: said("a" if crowd < 8 else "b"), 1)
    assert (result.verdict, [crowd.size for crowd in result.crowds]) == ("exact", [1])


def test_an_endpoint_that_refuses_log_probabilities_is_probed_by_its_texts() -> None:
    class Refusing(Crowded):
        async def call(self, request: Request, body: bytes) -> Response:
            if "logprobs" in request.params:
                return Response("error", error_kind="http_400", errors=["logprobs are not supported"])
            return await super().call(request, body)

    result = asyncio.run(probe(Refusing(lambda at, crowd: said("a")), {}))
    assert (result.verdict, result.crowds[0].largest_gap) == ("exact", None)


def test_an_endpoint_with_one_temperature_is_probed_without_one() -> None:
    class Fixed(Crowded):
        async def call(self, request: Request, body: bytes) -> Response:
            if "temperature" in request.params:
                return Response("error", error_kind="http_400", errors=["temperature is always 1"])
            return await super().call(request, body)

    result = asyncio.run(probe(Fixed(lambda at, crowd: said("a", -0.5)), {}))
    assert (result.verdict, result.crowds[0].largest_gap) == ("exact", 0)


def test_a_prompt_without_an_answer_leaves_no_verdict() -> None:
    broken = Response("error", error_kind="http_500", errors=["the server is on fire"])
    with pytest.raises(EndpointFailed, match=r"1 of 64 requests got no answer.*on fire"):
        verdict_of(lambda at, crowd: broken if (at, crowd) == (7, 8) else said("a"))
    with pytest.raises(InputError, match="neither chat nor completions"):
        verdict_of(lambda at, crowd: said("a"), CROWD, "embed")


@pytest.mark.parametrize("logprobs", ['{"content": [1, {}]}', "[]", "{", '{"content": [{"logprob": NaN}]}', '"x"'])
def test_odd_log_probabilities_are_no_log_probabilities(logprobs: str) -> None:
    result = verdict_of(lambda at, crowd: Response("ok", answer="a", logprobs=logprobs))
    assert (result.verdict, result.crowds[0].largest_gap) == ("exact", None)


def test_a_verdict_holds_for_one_model_engine_device_settings_and_concurrency(tmp_path: Path) -> None:
    stored = probed(Store.open(str(tmp_path / "store")))
    config: dict[str, Any] = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "freshness": "monday"}

    def identity(concurrency: int = 8, **fields: Any) -> dict[str, Any]:
        return probe_identity("openai_http", {**config, **fields}, BackendContext(), concurrency=concurrency)

    assert stored.find(identity()) is None
    verdict = asyncio.run(probe(Crowded(lambda at, crowd: said("a")), identity()))
    stored.replace(verdict)
    assert stored.find(identity()) == verdict
    assert stored.find(identity(freshness="tuesday", timeout=5, api_key="env:KEY")) == verdict
    for other in (identity(9), identity(model="n"), identity(identity="v2"), identity(stream=True)):
        assert stored.find(other) is None
    (file,) = (tmp_path / "store" / "probes").iterdir()
    file.write_bytes(b'{"verdict": "exact"}')
    with pytest.raises(InputError, match="is damaged"):
        stored.find(identity())
