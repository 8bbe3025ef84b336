"""The text metrics give the official scorers' numbers, each row of their vectors; differences are listed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from score_tables import answers, sample, samples
from vector_differences import MATH
from vectors import vector_rows

from gage_eval.base.boxed import boxed_content, last_boxed
from gage_eval.scoring.metrics import bind
from gage_eval.scoring.metrics.math_rules import hendrycks_equal, prm800k_equal
from gage_eval.scoring.metrics.words import squad_normalised

Case = tuple[dict[str, Any], dict[str, Any]]


def inspect_cases(
    shared: Path, scorer: str, metric: str, params: Callable[[dict[str, Any]], dict[str, Any]]
) -> list[Case]:
    """The rows of one of Inspect's scorers, each with the score row of our metric."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in vector_rows(shared, "inspect_ai_scorers"):
        if row["scorer"] == scorer:
            groups.setdefault(repr(row["params"]), []).append(row)
    return [
        case
        for cases in groups.values()
        for case in zip(
            cases,
            scored(metric, [(row["completion"], row["target"]) for row in cases], params(dict(cases[0]["params"]))),
            strict=True,
        )
    ]


HARNESS = [",", r"\$", r"(?s).*#### ", r"\.$"]


def scored(metric: str, pairs: list[tuple[str, Any]], params: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Score rows of answers against a reference, or a list of them."""
    texts = [wanted if isinstance(wanted, list) else [wanted] for _, wanted in pairs]
    table = bind(metric, params).score_table(
        {
            "samples": samples([sample(i, wanted[0], metadata={"answers": wanted}) for i, wanted in enumerate(texts)]),
            "responses": answers([answer for answer, _ in pairs]),
        }
    )
    return [{**row, "values": dict(row["values"])} for row in table.to_pylist()]


@pytest.mark.parametrize("name", ["strict-match", "flexible-extract"])
@pytest.mark.parametrize("metric", ["gsm8k", "exact_match"])
def test_gsm8k_is_the_harness_one(shared: Path, name: str, metric: str) -> None:
    params = {} if metric == "gsm8k" else {"regexes_to_ignore": HARNESS, "strip_whitespace": False}
    cases = list(vector_rows(shared, "lm_eval_gsm8k"))
    pairs = [(row["response"], row["gold"]) for row in cases if "response" in row]
    expected = [row["expected"][name] for row in cases if "response" in row]
    (corpus,) = [row for row in cases if "pairs" in row]
    bound = bind(metric, params, filters=[name])
    for texts, wanted in ((pairs, expected), (corpus["pairs"], None)):
        table = bound.score_table(
            {
                "samples": samples([sample(i, gold) for i, (_, gold) in enumerate(texts)]),
                "responses": answers([text for text, _ in texts]),
            }
        )
        rows = table.to_pylist()
        if wanted is not None:
            assert [row["extracted"] or "[invalid]" for row in rows] == [row["extracted"] for row in wanted]
            assert [dict(row["values"])[bound.value_keys[0]] for row in rows] == [row["exact_match"] for row in wanted]
        else:
            (number,) = bound.aggregate([table], {"ok": len(rows)})
            assert number["value"] == pytest.approx(corpus["expected"][name]["mean"], abs=1e-9)
            assert number["stderr"] == pytest.approx(corpus["expected"][name]["stderr"], abs=1e-9)


def test_exact_match_is_the_harness_one_with_all_its_options(shared: Path) -> None:
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in vector_rows(shared, "lm_eval_exact_match"):
        groups.setdefault(repr(row["params"]), []).append(row)
    for cases in groups.values():
        options = dict(cases[0]["params"])
        params = {"case_sensitive": not options.pop("ignore_case", False), "strip_whitespace": False, **options}
        scores = scored("exact_match", [(row["prediction"], row["reference"]) for row in cases], params)
        for row, score in zip(cases, scores, strict=True):
            assert score["values"] == {"score": row["expected"]}, row["id"]


def test_match_is_inspects_match(shared: Path) -> None:
    for row, score in inspect_cases(shared, "match", "match", _named_numbers):
        assert score["values"] == {"score": float(row["expected"]["value"] == "C")}, row["id"]
        assert (score["extracted"] or "") == (row["expected"]["answer"] or ""), row["id"]


def _named_numbers(params: dict[str, Any]) -> dict[str, Any]:
    numeric = params.pop("numeric")
    return {**params, "numbers": "five_digits" if numeric else "text"}


def test_pattern_is_inspects_pattern(shared: Path) -> None:
    for row, score in inspect_cases(shared, "pattern", "pattern", dict):
        assert score["values"] == {"score": float(row["expected"]["value"] == "C")}, row["id"]


def test_the_filter_answer_finds_what_inspects_answer_finds(shared: Path) -> None:
    for row in vector_rows(shared, "inspect_ai_scorers"):
        if row["scorer"] == "answer":
            bound = bind("exact_match", filters=[{"answer": {"kind": row["params"]["pattern"]}}])
            table = bound.score_table(
                {"samples": samples([sample(0, row["target"][0])]), "responses": answers([row["completion"]])}
            )
            (score,) = table.to_pylist()
            assert (score["extracted"] or "") == (row["expected"]["answer"] or "").strip(), row["id"]
            assert dict(score["values"]) == {"score": float(row["expected"]["value"] == "C")}, row["id"]


def test_token_f1_and_exact_are_inspects(shared: Path) -> None:
    for row, score in inspect_cases(shared, "f1", "token_f1", dict):
        assert round(score["values"]["f1"], 2) == row["expected"]["value"], row["id"]
    for row, score in inspect_cases(shared, "exact", "token_f1", dict):
        assert score["values"]["exact"] == float(row["expected"]["value"] == "C"), row["id"]


def test_choice_set_is_inspects_choice(shared: Path) -> None:
    cases = [row for row in vector_rows(shared, "inspect_ai_scorers") if row["scorer"] == "choice"]
    marked = [", ".join("ABCDEFGHIJ"[place] for place in row["marked"]) for row in cases]
    wanted = [", ".join(row["target"]) for row in cases]
    for row, score in zip(cases, scored("choice_set", list(zip(marked, wanted, strict=True))), strict=True):
        if "error" in row["expected"]:
            assert score["status"] == "unscored", row["id"]
        else:
            assert score["values"] == {"acc": float(row["expected"]["value"] == "C")}, row["id"]
            assert (score["extracted"] or "") == row["expected"]["answer"], row["id"]


@pytest.mark.parametrize("rule", ["hendrycks", "prm800k"])
def test_math_equivalence_is_both_published_checkers(shared: Path, rule: str) -> None:
    same: dict[str, Callable[[str, str], bool]] = {"hendrycks": hendrycks_equal, "prm800k": prm800k_equal}
    official = {"hendrycks": "hendrycks_is_equiv", "prm800k": "prm800k_grade_answer"}[rule]
    for row in vector_rows(shared, "math_equivalence"):
        if "prediction" in row and row["id"] not in MATH:
            assert same[rule](row["prediction"], row["target"]) == row["expected"][official], row["id"]


@pytest.mark.parametrize(
    ("prediction", "target", "equal"),
    [
        ("0.1+0.2", "0.3", False),
        ("1.1*1.1", "1.21", False),
        ("0.3-0.1", "0.2", False),
        ("0.1x+0.2x", "0.3x", False),
        ("0.1\\pi+0.2\\pi", "0.3\\pi", False),
        ("(x+0.1)^2", "x^2+0.2x+0.01", False),
        ("0.6/0.2+0.5", "3.5", False),
        ("0.5+0.25", "0.75", True),
        ("2.4/1.2+0.5", "2.5", True),
        ("2.5x", "5x/2", True),
        ("0.5\\sqrt{2}", "\\frac{\\sqrt{2}}{2}", True),
        ("1.5\\pi", "\\frac{3\\pi}{2}", True),
        ("3.14", "314/100", True),
    ],
)
def test_prm800k_computes_decimals_as_floats(prediction: str, target: str, equal: bool) -> None:
    assert prm800k_equal(prediction, target) == equal


def test_the_last_box_is_the_published_one(shared: Path) -> None:
    for row in vector_rows(shared, "math_equivalence"):
        if "text" in row:
            box = last_boxed(row["text"])
            assert box == row["expected"]["last_boxed"], row["id"]
            assert (None if box is None else boxed_content(box)) == row["expected"]["answer"], row["id"]


def test_squad_is_the_official_script(shared: Path) -> None:
    for row in vector_rows(shared, "squad_v1"):
        items = row.get("items") or [[row["prediction"], row["answers"]]]
        bound = bind("squad")
        table = bound.score_table(
            {
                "samples": samples(
                    [sample(i, wanted[0], metadata={"answers": wanted}) for i, (_, wanted) in enumerate(items)]
                ),
                "responses": answers([text for text, _ in items]),
            }
        )
        em, f1 = bound.aggregate([table], {"ok": len(items)})
        share = 100 if "items" in row else 1
        assert (em["n"], f1["n"]) == (len(items), len(items))
        assert em["value"] * share == pytest.approx(row["expected"]["exact_match"], abs=1e-9), row["id"]
        assert f1["value"] * share == pytest.approx(row["expected"]["f1"], abs=1e-9), row["id"]
        if "normalized" in row["expected"]:
            assert squad_normalised(row["prediction"]) == row["expected"]["normalized"], row["id"]


@pytest.mark.parametrize("stem", [False, True])
def test_rouge_is_rouge_score(shared: Path, stem: bool) -> None:
    cases = list(vector_rows(shared, "rouge_score"))
    scores = scored("rouge", [(row["hypothesis"], row["reference"]) for row in cases], {"use_stemmer": stem})
    for row, score in zip(cases, scores, strict=True):
        for kind, value in score["values"].items():
            key = f"{kind}_stem" if stem else kind
            if key in row["expected"]:
                assert value == pytest.approx(row["expected"][key][2], abs=1e-9), row["id"]


SENTENCES: dict[str, tuple[str, dict[str, Any]]] = {
    "bleu": ("bleu", {}),
    "bleu_lower": ("bleu", {"lowercase": True}),
    "bleu_no_effective_order": ("bleu", {"effective_order": False}),
    "bleu_smooth_addk1": ("bleu", {"smooth_method": "add-k", "smooth_value": 1}),
    "bleu_char": ("bleu", {"tokenize": "char"}),
    "bleu_intl": ("bleu", {"tokenize": "intl"}),
    "bleu_none": ("bleu", {"tokenize": "none"}),
    "chrf": ("chrf", {}),
    "chrf++": ("chrf", {"word_order": 2}),
    "chrf_lower": ("chrf", {"lowercase": True}),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_bleu_and_chrf_of_sentences_are_sacrebleus(shared: Path, name: str) -> None:
    metric, params = SENTENCES[name]
    for chinese in (False, True):
        cases = [
            row
            for row in vector_rows(shared, "sacrebleu")
            if "hypothesis" in row and row["group"].endswith("zh") == chinese
        ]
        own = {"tokenize": "zh"} if chinese and metric == "bleu" and "tokenize" not in params else {}
        scores = scored(metric, [(row["hypothesis"], row["references"]) for row in cases], {**params, **own})
        for row, score in zip(cases, scores, strict=True):
            assert score["values"][metric] == pytest.approx(row["expected"][name], abs=1e-9), row["id"]


def test_bleu_and_chrf_of_a_corpus_are_sacrebleus_and_need_no_text(shared: Path) -> None:
    cases = [row for row in vector_rows(shared, "sacrebleu") if row["group"] == "corpus"]
    assert len(cases) == 6
    for row in cases:
        wanted = [list(texts) for texts in zip(*row["reference_streams"], strict=True)]
        expected = row["expected"]
        for metric, params, name in (
            ("bleu", {"tokenize": row["tokenize"]}, "bleu"),
            ("chrf", {}, "chrf"),
            ("chrf", {"word_order": 2}, "chrf++"),
        ):
            bound = bind(metric, params)
            table = bound.score_table(
                {
                    "samples": samples(
                        [sample(i, texts[0], metadata={"answers": texts}) for i, texts in enumerate(wanted)]
                    ),
                    "responses": answers(row["hypotheses"]),
                }
            )
            (number,) = bound.aggregate([table], {"ok": len(wanted)})
            assert number["value"] == pytest.approx(expected[name], abs=1e-9), (row["id"], name)
            assert number["ci_low"] <= number["value"] <= number["ci_high"] or len(wanted) < 10
            assert number["interval"] == "bootstrap"
