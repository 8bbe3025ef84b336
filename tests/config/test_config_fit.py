"""What does not fit together is said with everything else that is wrong, each at its line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gage_eval.base.errors import ConfigError
from gage_eval.config.load import load_config, parse_config

Small = Callable[..., str]
Refusal = Callable[..., list[str]]

DUT = {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "local"}
MINE = {"dataset_id": "mine", "params": {"path": "mine.jsonl"}}


BY_POSITION = [{"backend_id": "local", "type": "replay", "config": {"path": "answers.jsonl", "match": "row"}}]


@pytest.mark.parametrize(
    ("sections", "problem"),
    [
        (
            {"role_adapters": [{**DUT, "capabilities": ["chat_completion", "vison"]}]},
            "role_adapters[0].capabilities[1]: no capability 'vison'.",
        ),
        (
            {
                "backends": [{"backend_id": "local", "type": "dummy"}],
                "role_adapters": [{**DUT, "capabilities": ["loglikelihood"]}],
            },
            "role_adapters[0].capabilities[0]: backend 'dummy' lacks 'likelihood'. It can: ",
        ),
        (
            {
                "backends": [{"backend_id": "local", "type": "dummy"}],
                "tasks": [{"task_id": "t", "dataset_id": "mine", "mode": "likelihood"}],
            },
            "tasks[0].mode: backend 'local' (dummy) cannot answer likelihood requests. It can: chat, ",
        ),
        (
            {"role_adapters": [{**DUT, "class_path": "no.such:Thing"}]},
            "role_adapters[0].class_path: cannot import 'no.such'",
        ),
        (
            {"role_adapters": [{**DUT, "class_path": "pathlib:Path"}]},
            "role_adapters[0].class_path: 'pathlib:Path' has neither 'prepare' nor 'parse'.",
        ),
        (
            {"prompts": [{"prompt_id": "p", "template": "{{ sample.question"}]},
            "prompts[0]: prompt 'p', line 1: unexpected end of template",
        ),
        (
            {"prompts": [{"prompt_id": "p", "template": "{{ histroy[-1].content }}", "system_prompt": "Be brief."}]},
            "prompts[0]: prompt 'p': there is no variable 'histroy'. Did you mean 'history'?",
        ),
        (
            {"prompts": [{"prompt_id": "p", "template": "Go.", "system_prompt": "{{ prompt_parms.n }}"}]},
            "prompts[0]: prompt 'p': there is no variable 'prompt_parms'. Did you mean 'prompt_params'?",
        ),
        (
            {"prompts": [{"prompt_id": "p", "template": [{"role": "user", "content": "{% if %}"}]}]},
            "prompts[0]: prompt 'p', message 0, line 1:",
        ),
        (
            {
                "role_adapters": [{**DUT, "prompt_id": "p"}],
                "prompts": [{"prompt_id": "p", "template": "{{ sample.question }}"}],
                "tasks": [{"task_id": "t", "dataset_id": "mine", "few_shot": {"k": 1}}],
            },
            "tasks[0].few_shot: prompt 'p' replaces the messages and shows no examples;",
        ),
        *(
            (
                {
                    "datasets": [{**MINE, "params": {**MINE["params"], **change}}],  # type: ignore[dict-item]
                    "backends": BY_POSITION,
                },
                f"datasets[0].params.{next(iter(change))}: backend 'local' matches rows by position (match: row), "
                f"which {next(iter(change))} changes. Use match: id, or",
            )
            for change in ({"filter": {"level": 1}}, {"shuffle": True, "limit": 3}, {"sample": 5})
        ),
        (
            {"backends": BY_POSITION, "tasks": [{"task_id": "t", "dataset_id": "mine", "shuffle": True}]},
            "tasks[0].shuffle: backend 'local' matches rows by position (match: row), which shuffle changes.",
        ),
        (
            {"datasets": [{**MINE, "params": {**MINE["params"], "content_root": "nowhere"}}]},  # type: ignore[dict-item]
            "datasets[0].params.content_root: there is no folder 'nowhere'.",
        ),
        (
            {"datasets": [{**MINE, "params": {**MINE["params"], "content_root": "~nobody-here/x"}}]},  # type: ignore[dict-item]
            "datasets[0].params.content_root: there is no folder '~nobody-here/x'.",
        ),
    ],
)
def test_it_is_a_problem_of_the_config(small: Small, refusal: Refusal, sections: dict[str, Any], problem: str) -> None:
    (line,) = refusal(small(**sections))
    assert line.startswith(problem)


def test_a_misspelled_word_that_is_needed_hides_no_other_mistake(small: Small, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        small(
            role_adapters=[{**DUT, "role_type": "dut_modell", "capabilities": ["vison"], "prompt_id": "p"}],
            tasks=[{"task_id": "t", "dataset_id": "mien"}],
        )
    )
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    problems = [(problem.path, problem.message.partition(".")[0]) for problem in caught.value.problems]
    assert problems == [
        ("role_adapters[0].role_type", "must be one of dut_model, judge_model, support, user, not 'dut_modell'"),
        ("role_adapters[0].prompt_id", "no prompt 'p' here; there are none at all"),
        ("tasks[0].dataset_id", "no dataset 'mien' here"),
    ]
    assert all(problem.line for problem in caught.value.problems)


def test_what_a_backend_can_do_may_follow_from_its_config(small: Small, refusal: Refusal) -> None:
    """An endpoint that echoes prompts scores likelihoods; one that does not is refused before anything is sent."""
    adapter = {**DUT, "capabilities": ["loglikelihood"]}
    task = {"task_id": "t", "dataset_id": "mine", "mode": "likelihood"}

    def text(**more: Any) -> str:
        config = {"base_url": "http://127.0.0.1:9/v1", "model": "m", **more}
        backend = {"backend_id": "local", "type": "openai_http", "config": config}
        return small(role_adapters=[adapter], tasks=[task], backends=[backend], metrics=["acc"])

    assert [line.partition(":")[0] for line in refusal(text())] == ["role_adapters[0].capabilities[0]", "tasks[0].mode"]
    assert parse_config(text(echo_logprobs=True), source="mine.yaml", env={}).config.tasks[0].mode == "likelihood"


def test_a_judge_with_an_unknown_prompt_is_one_problem(small: Small, refusal: Refusal) -> None:
    judge = {"adapter_id": "judge", "role_type": "judge_model", "backend_id": "local", "prompt_id": "rates"}
    problems = refusal(
        small(
            prompts=[{"prompt_id": "rate", "template": "{{ model_answer }}"}],
            role_adapters=[DUT, judge],
            metrics=["judge_rating", "judge_threshold"],
        )
    )
    assert problems == ["role_adapters[1].prompt_id: no prompt 'rates' here. Known: rate. Did you mean 'rate'?"]


@pytest.mark.parametrize(
    ("template", "backend", "said"),
    [
        (
            "Is it {{ sample.label }}? {# model_answer #}",
            "other",
            ["the prompt of judge 'judge' never shows the answer"],
        ),
        (None, "other", ["judge 'judge' has no prompt"]),
        ("{{ model_answer }}", "local", ["judge 'judge' is the model under test"]),
        ("{{ payload.model_output.answer }}", "other", []),
    ],
)
def test_what_is_doubtful_of_a_judge_is_said_and_allowed(
    small: Small, template: str | None, backend: str, said: list[str]
) -> None:
    judge = {"adapter_id": "judge", "role_type": "judge_model", "backend_id": backend}
    backends = [
        {"backend_id": name, "type": "openai_http", "config": {"base_url": "http://h/v1", "model": name}}
        for name in ("local", "other")
    ]
    prompts = [] if template is None else [{"prompt_id": "rate", "template": template}]
    adapters = [DUT, {**judge, "prompt_id": "rate"} if prompts else judge]
    text = small(backends=backends, prompts=prompts, role_adapters=adapters, metrics=["judge_rating"])
    warnings = parse_config(text, source="mine.yaml", env={}).warnings
    assert len(warnings) == len(said)
    assert all(part in warning for part, warning in zip(said, warnings, strict=True))


def test_a_template_may_ask_whether_a_variable_is_there(small: Small) -> None:
    template = "{% if hint is defined %}{{ hint }}{% endif %}"
    (prompt,) = parse_config(small(prompts=[{"prompt_id": "p", "template": template}])).config.prompts
    assert prompt.template == template
