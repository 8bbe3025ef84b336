"""Each built-in suite says what it is, needs what its tasks ask for, and code suites refuse with their sentence."""

import re
from typing import Any

import pytest

from bench.local_suites import suite_names, template_of
from gage_eval.config.data_origins import load_origin
from gage_eval.config.suites.card import SuiteCard

SECTIONS = ("Measures", "Data.", "Prompt.", "Metric.", "Pitfalls", "Cost.")


def parts(name: str) -> tuple[str, dict[str, Any]]:
    path, template = template_of(name)
    return (path.parent / "README.md").read_text(encoding="utf-8"), template


@pytest.mark.parametrize("name", suite_names())
def test_a_readme_says_what_one_wants_to_know_of_a_suite(name: str) -> None:
    page, template = parts(name)
    flat = " ".join(page.split())
    assert page.startswith("# ")
    for section in SECTIONS:
        assert f"**{section}" in page, section
    card = template["suite"]
    assert "eference score" in page
    for score in card.get("reference", []):
        row = re.search(rf"\| {re.escape(score['model'])} \|.*\| {score['score']:g} \|(.*)\|", page)
        assert row, score
        # The table of a paper, whose address the page has.
        paper, _, table = score["source"].rpartition(", ")
        address = re.search(r"arXiv:[\d.]+", paper)
        assert table in row[1], score
        assert paper.split(",")[0] in row[1], score
        assert address is not None, score
        assert address[0] in page, score
    if not card.get("reference"):
        assert "**Reference scores.** None" in page
    for origin in card.get("origins", []):
        assert f"`configs/origins/{origin}.yaml`" in page
    if card.get("hub"):
        assert "not pinned" in flat
    assert card["licence"].split()[0].rstrip(",;") in flat or "in the package" in page.lower()


@pytest.mark.parametrize("name", suite_names())
def test_a_card_fits_its_definition(name: str) -> None:
    _, template = parts(name)
    card = SuiteCard.model_validate(template["suite"])
    definition = template["definition"]
    used = {dataset["params"].get("origin") for dataset in definition["datasets"]} - {None}
    assert set(card.origins) == used
    assert set(card.hub) == {dataset["hub"] for dataset in definition["datasets"] if "hub" in dataset}
    assert ("likelihood" in card.needs) == any("likelihood" in task.get("mode", "") for task in definition["tasks"])
    judges = [adapter for adapter in definition.get("role_adapters", []) if adapter["role_type"] == "judge_model"]
    assert ("judge" in card.needs) == bool(judges)
    assert card.non_commercial == any(load_origin(origin).non_commercial for origin in used)
    if name not in ("demo", "judge_bench"):
        assert not definition.get("backends"), "the model comes from the command line"
        generating = [task for task in definition["tasks"] if "likelihood" not in task.get("mode", "")]
        # A picture has no tokens to limit.
        assert "image_generation" in card.needs or all(task["sampling_params"]["max_new_tokens"] for task in generating)
    # Every metric of a suite is named as a result shows it.
    ids = {
        metric if isinstance(metric, str) else metric["metric_id"]
        for task in definition["tasks"]
        for metric in metrics_of(task)
    }
    assert re.split("[, ]", card.metric)[0] in ids


def metrics_of(task: dict[str, Any]) -> list[Any]:
    return [*task.get("metric_overrides", []), *task.get("metrics", [])]


def test_the_list_of_suites_is_that_of_the_issue() -> None:
    names = (
        "demo gsm8k math500 mmlu mmlu_pro cmmlu agieval piqa arc hellaswag truthfulqa bbh ifeval humaneval "
        "humaneval_plus mbpp mbpp_sanitized mbpp_plus cruxeval mmmu mmmu_pro docvqa mt_bench local_judge "
        "rag multi_choice_likelihood mt_bench_pairs mt_bench_panel arena_hard alpaca_eval judge_bench "
        "text_to_image bfcl_ast bfcl_multi_turn asr video_mc doc_pages"
    )
    likelihood = "mmlu cmmlu agieval piqa arc hellaswag truthfulqa"
    assert {*names.split(), *(f"{name}_likelihood" for name in likelihood.split())} == set(suite_names())
