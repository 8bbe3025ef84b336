import asyncio
from pathlib import Path
from typing import Any

import pytest

from gage_eval.base.errors import InputError
from gage_eval.models.backends.base import BackendContext
from gage_eval.models.backends.build import build_backend
from gage_eval.models.client.types import Request, Response


def ask(config: dict[str, Any], text: str = "What?", **more: Any) -> Response:
    backend = build_backend("dummy", config, BackendContext(Path()))
    request = Request("chat", messages=[{"role": "user", "content": text}], **more)
    return asyncio.run(backend.call(request, b""))


def test_each_mode_answers_as_it_says() -> None:
    assert ask({"answer": "yes"}).answer == "yes"
    assert ask({"mode": "echo"}, "hello you").answer == "hello you"
    assert ask({"mode": "choice", "choices": ["x"]}).answer == "x"


def test_choices_depend_on_prompt_seed_and_draw_only() -> None:
    answers = [ask({"mode": "choice"}, str(n)).answer for n in range(50)]
    assert answers == [ask({"mode": "choice", "latency_ms": 0.1}, str(n)).answer for n in range(50)]
    assert set(answers) == {"A", "B", "C", "D"}
    assert answers != [ask({"mode": "choice", "seed": 1}, str(n)).answer for n in range(50)]
    assert answers != [ask({"mode": "choice"}, str(n), draw=1).answer for n in range(50)]


def test_rows_fail_when_told_to_and_identity_does_not_change_with_it() -> None:
    config = {"fail_sample_ids": ["s2"]}
    assert ask(config, sample_id="s1").status == "ok"
    assert ask(config, sample_id="s2").status == "error"
    assert sum(ask({"error_rate": 0.5}, str(n)).status == "error" for n in range(100)) in range(30, 70)
    context = BackendContext(Path())
    assert build_backend("dummy", config, context).identity() == build_backend("dummy", {}, context).identity()


def test_an_empty_prompt_is_skipped() -> None:
    assert ask({}, " ").status == "skipped"


def test_a_choice_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="mode choice needs at least one of 'choices'"):
        ask({"mode": "choice", "choices": []})
