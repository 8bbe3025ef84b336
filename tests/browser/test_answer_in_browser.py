"""Promises of an answer's page in a browser: sound plays, thinking is folded, tokens, tools and verdicts are shown, and
each of ten thousand steps is reached at once."""

import math
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from browser.agent_run import DIFFERENT_STEP, STEPS
from browser.conftest import NARROW, WIDE, Viewer
from browser.rich_run import SECONDS, THINKING, VERDICT

if TYPE_CHECKING:
    from playwright.sync_api import Page

Open = Callable[..., "Page"]

_DURATION = """sound => new Promise((done, failed) => {
  sound.onloadedmetadata = () => done(sound.duration);
  sound.onerror = () => failed(new Error("the sound cannot be loaded"));
  sound.load();
})"""


@pytest.fixture(params=[WIDE, NARROW], ids=["wide", "narrow"])
def page(request: pytest.FixtureRequest, opened: Open, viewer: Viewer) -> "Page":
    return opened(viewer, "/runs/rich/sample?id=tone", request.param)


def test_the_sound_of_a_message_has_a_player_that_loads_it(page: "Page") -> None:
    player = page.get_by_label("audio of the message")
    assert player.is_visible()
    assert player.evaluate(_DURATION) == pytest.approx(SECONDS, abs=0.05)


def test_a_click_on_the_waveform_or_on_a_time_in_a_text_plays_from_there(page: "Page") -> None:
    from playwright.sync_api import expect

    player, shape = page.get_by_label("audio of the message"), page.locator(".wave")
    # Playing would move it on.
    player.evaluate(
        "sound => { sound.play = async () => {};"
        " sound.onseeked = () => { sound.title = sound.currentTime.toFixed(2); }; }"
    )
    shape.scroll_into_view_if_needed()
    expect(shape).to_have_js_property("complete", value=True)
    assert shape.evaluate("picture => picture.naturalWidth")
    box = shape.bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= page.evaluate("innerWidth")
    shape.click(position={"x": box["width"] * 0.8, "y": 5})
    expect(player).to_have_attribute("title", re.compile(r"0\.(39|40)"))
    page.get_by_role("button", name="0.25 s").click()
    expect(player).to_have_attribute("title", "0.25")


def test_thinking_is_folded_until_it_is_opened(page: "Page") -> None:
    thought = page.get_by_text(THINKING, exact=True)
    assert not thought.is_visible()
    page.get_by_text(f"thinking, {len(THINKING)} characters").click()
    assert thought.is_visible()


def test_tokens_are_coloured_by_their_probability_and_name_the_alternatives(page: "Page") -> None:
    page.get_by_text("3 tokens by probability").click()
    tokens = page.locator(".heat span")
    assert tokens.all_inner_texts() == ["It ", "is ", "5"]
    sure, likely, surprising = (tokens.nth(place) for place in range(3))
    colours = {
        token.evaluate("token => getComputedStyle(token).backgroundColor") for token in (sure, likely, surprising)
    }
    assert len(colours) == 3, "each share has a colour of its own"
    title = surprising.get_attribute("title") or ""
    assert title.startswith("0.05")
    assert "six 0.4" in title


def test_tool_calls_and_the_reference_trajectory_are_shown_step_by_step(page: "Page") -> None:
    answer = page.get_by_label("The model's answer")
    assert "calls listen" in answer.inner_text()
    assert '"seconds": 5' in answer.locator(".call pre").inner_text()
    page.get_by_text("reference trajectory 1, 2 steps").click()
    steps = page.locator("details[open] .msg")
    assert steps.count() == 2
    assert "calls measure" in steps.nth(0).inner_text()
    assert "half a second" in steps.nth(1).inner_text()
    page.get_by_text("tools", exact=True).click()
    assert page.locator("details[open] > pre", has_text='"name": "listen"').is_visible()


def test_the_judges_words_are_shown_with_what_the_judge_was_asked(page: "Page") -> None:
    judge = page.get_by_label("The judge's words")
    assert judge.get_by_text(VERDICT, exact=True).is_visible()
    assert "score 8" in judge.locator("header").first.inner_text()
    prompt = judge.get_by_text("Rate this answer: It is 5", exact=True)
    assert not prompt.is_visible()
    judge.get_by_text("what the judge was asked").click()
    assert prompt.is_visible()


@pytest.mark.parametrize("path", ["/sample?id=long", "/samples"])
def test_each_of_ten_thousand_steps_is_reached_at_once(opened: Open, viewer: Viewer, path: str) -> None:
    page = opened(viewer, f"/runs/agent{path}")
    page.get_by_label("Go to step").wait_for()
    fastest = dict.fromkeys((STEPS - 1, 5_000, 101), math.inf)
    # In turns: other work of the machine slows some tries, not every try of one step.
    for step in 4 * list(fastest):
        fastest[step] = min(fastest[step], _seconds_to(page, step))
        assert page.locator(".step").count() <= 500
        shown = page.locator(f"#step-{step}")
        assert shown.evaluate("step => document.activeElement === step")
        assert 0 <= shown.evaluate("step => step.getBoundingClientRect().top") <= WIDE[1]
        assert page.evaluate("scrollX + document.body.scrollTop") == 0, "the frame of the list stays where it is"
    assert max(fastest.values()) <= 5 * min(fastest.values()), "no step is farther than another"
    _seconds_to(page, 6_000)
    output = page.locator("#step-6000 .said")
    assert not output.is_visible()
    page.locator("#step-6000 summary").click()
    assert output.is_visible()
    assert page.locator("#step-6000 .beside").inner_text().splitlines()[0] == "6,000"
    if path != "/samples":
        page.reload()
        assert page.locator("#step-6000").is_visible(), "the address names the step"
    difference = page.locator(".differences")
    assert "repetition 1" in difference.inner_text()
    difference.locator("[data-step]").click()
    page.locator(f"#step-{DIFFERENT_STEP}").wait_for()


def _seconds_to(page: "Page", step: int) -> float:
    """How long a step takes from the key to its place in the page; from a page of steps that does not have it."""
    away = page.locator("[data-steps] [data-step]:text-is('first'), [data-steps] [data-step]:text-is('next')").first
    beginning = away.get_attribute("data-step")
    away.click()
    page.locator(f"#step-{beginning}.on").wait_for()
    assert not page.locator(f"#step-{step}").count()
    page.get_by_label("Go to step").fill(str(step))
    begin = time.perf_counter()
    page.get_by_label("Go to step").press("Enter")
    page.locator(f"#step-{step}").wait_for()
    return time.perf_counter() - begin
