"""Promises of the page with the gate's simulations: its figures are those of the gate as it is now."""

import re

import pytest

from bench.gate import CASES, PAGE, case_row, power_row, share_of
from gage_eval.stats.sequential import promise
from gage_eval.stats.verdicts import GateRule

SEED = 1


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


# The others take minutes. They use the same functions of the gate.
@pytest.mark.parametrize("text", ["n = 100, 5% discordant: 5 pairs", "10 clusters of 20 rows"])
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


@pytest.mark.parametrize("name", ["gate-simulations.md", "regression.md"])
def test_the_docs_print_what_the_alarm_promises_word_for_word(name: str) -> None:
    assert promise(GateRule()) in " ".join((PAGE.parent / name).read_text(encoding="utf-8").split())
