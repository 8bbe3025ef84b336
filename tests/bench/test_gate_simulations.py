"""Promises of the page with the gate's simulations: its figures are those of the gate as it is now."""

import re

import pytest

from bench.gate import CASES, NUMBER_CASES, PAGE, case_row, number_shares, power_row, share_of
from gage_eval.stats.gate_rule import GateRule
from gage_eval.stats.sequential import promise

SEED = 1


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


# The others take minutes. They use the same functions of the gate.
@pytest.mark.parametrize(
    "text", ["n = 100, 5% discordant: 5 pairs", pytest.param("10 clusters of 20 rows", marks=pytest.mark.slow)]
)
def test_a_simulation_gives_the_figure_of_the_page_again(page: str, text: str) -> None:
    number, case = next((number, case) for number, case in enumerate(CASES) if case.text == text)
    assert case_row(case, share_of(case, SEED + number)) in page


def test_the_power_table_is_that_of_the_gate_now(page: str) -> None:
    assert power_row(200, 0.10, SEED) in page


def test_the_page_has_every_situation_and_each_is_within_its_bounds(page: str) -> None:
    shares = {
        text: float(share) / 100 for text, share in re.findall(r"^\| (.+?) \|.* ([\d.]+)% \|$", page, re.MULTILINE)
    }
    for case in CASES:
        assert case.low <= shares[case.text] <= case.high, case.text
        assert case_row(case, shares[case.text]) in page
    rings = re.search(r"The alarm rings in ([\d.]+)% of the years", page)
    assert rings is not None
    assert float(rings[1]) <= 5


def test_the_page_has_false_alarms_and_power_of_numbers_that_are_not_means(page: str) -> None:
    rows = dict(re.findall(r"^\| (.+?) \| ([\d.]+)% \| [\d.]+% \| [^|]*[a-z][^|]* \| \d+% \|$", page, re.MULTILINE))
    assert list(rows) == [case.text for case in NUMBER_CASES]
    assert all(float(false_alarms) <= 7 for false_alarms in rows.values())


# The first nights of a thousand: each share of the page lies within what so few nights can show.
@pytest.mark.parametrize(
    "text",
    [
        "median of seconds, n = 200",
        *(pytest.param(text, marks=pytest.mark.slow) for text in ("macro-F1, n = 200", "BLEU, n = 100")),
    ],
)
def test_the_first_simulated_nights_agree_with_the_page(page: str, text: str) -> None:
    (case,) = (case for case in NUMBER_CASES if case.text == text)
    printed = re.search(rf"^\| {re.escape(text)} \| ([\d.]+)% .* (\d+)% \|$", page, re.MULTILINE)
    assert printed is not None
    nights = 15
    false_alarms, _, power = number_shares(case, SEED, nights)
    for share, percent in ((false_alarms, float(printed[1])), (power, float(printed[2]))):
        expected = percent / 100
        assert abs(share - expected) <= 3 * (max(expected * (1 - expected), 0.01) / nights) ** 0.5


@pytest.mark.parametrize("name", ["gate-simulations.md", "regression.md"])
def test_the_docs_print_what_the_alarm_promises_word_for_word(name: str) -> None:
    assert promise(GateRule()) in " ".join((PAGE.parent / name).read_text(encoding="utf-8").split())
