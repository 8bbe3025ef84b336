"""Promises of the viewer in a real browser: clicks, keys, back, links, notes, labels, exports, and hostile texts."""

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from browser.conftest import HOSTILE, LARGE_ROWS, NARROW, TOKEN, WIDE, Viewer, note_files, wait_for_index

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

Open = Callable[..., "Page"]


def rows(page: "Page") -> list[str]:
    """The first column of the list."""
    return page.locator("table.list tbody [data-row]").all_inner_texts()


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_three_clicks_lead_from_a_score_to_the_letter_that_was_read(
    opened: Open, viewer: Viewer, size: tuple[int, int]
) -> None:
    page = opened(viewer, "/", size)
    page.get_by_role("link", name="letters", exact=True).click()
    wait_for_index(page)
    page.get_by_role("link", name=re.compile(r"^45 wrong")).first.click()
    wait_for_index(page)
    page.get_by_role("link", name="letter-1", exact=True).click()
    why = page.locator(".why", has_text="Wrong: read A out of the answer, expected B.")
    why.wait_for()
    assert page.locator("article mark").inner_text() == "A"
    assert "The answer is A, I think." in page.locator(".msg.model").inner_text()


def test_the_answers_of_a_real_model_are_shown_with_its_prompt(opened: Open, viewer: Viewer) -> None:
    page = opened(viewer, "/runs/demo")
    page.locator(".fail").first.click()
    wait_for_index(page)
    page.locator("article .msg.model").wait_for()
    assert page.locator("article .msg").count() >= 2
    assert "as sent" in page.locator("article").inner_text()


def test_images_are_shown(opened: Open, viewer: Viewer) -> None:
    page = opened(viewer, "/runs/pictures/sample?id=colour")
    image = page.locator("article img")
    image.wait_for()
    assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") == 40


def test_search_filter_sort_and_back(opened: Open, viewer: Viewer) -> None:
    page = opened(viewer, "/runs/letters/samples?task=letters")
    first = rows(page)
    page.keyboard.press("/")
    page.keyboard.type("status:wrong topic:high")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=status**")
    assert len(rows(page)) == 30
    page.get_by_role("link", name="sample", exact=True).click()
    page.wait_for_url("**sort=id**")
    assert rows(page) == sorted(rows(page))
    page.get_by_role("link", name=re.compile("topic:high")).click()
    page.wait_for_url(lambda url: "topic" not in url)
    for _ in range(3):
        page.go_back()
    page.locator(".foot", has_text="1–50 of 60").wait_for()
    assert rows(page) == first


def test_keys_move_through_the_list_and_back_returns_to_the_answer_before(opened: Open, viewer: Viewer) -> None:
    page = opened(viewer, "/runs/letters/samples?task=letters&q=status:wrong")
    wrong = rows(page)
    assert shown(page, 1) == wrong[0]
    page.keyboard.press("j")
    assert shown(page, 2) == wrong[1]
    assert page.locator("tr.on [data-row]").inner_text() == wrong[1]
    shared = page.url
    page.keyboard.press("j")
    assert shown(page, 3) == wrong[2]
    page.keyboard.press("k")
    assert shown(page, 2) == wrong[1]
    page.go_back()
    assert shown(page, 3) == wrong[2]
    page.go_back()
    assert shown(page, 2) == wrong[1]
    assert page.url == shared
    again = opened(viewer, shared.removeprefix(viewer.url))
    assert shown(again, 2) == wrong[1], "the link leads to the answer that was open"


def shown(page: "Page", place: int) -> str:
    """The id of the answer that is open, once it is the one at that place of the list."""
    page.locator(".place", has_text=f"{place} of 45").wait_for()
    return page.locator("article .place .mono").inner_text()


def test_the_pane_says_that_an_answer_is_loading(opened: Open, viewer: Viewer) -> None:
    page = opened(viewer, "/notes")
    held: list[Route] = []
    page.route("**/sample?*part=1*", lambda route: held.append(route))
    page.goto(f"{viewer.url}/runs/letters/samples?task=letters")
    page.get_by_text("Loading the answer …").wait_for()
    assert page.locator("#pane").get_attribute("aria-busy") == "true"
    held[0].continue_()
    page.locator("#pane article .why").wait_for()
    assert page.locator("#pane").get_attribute("aria-busy") is None


def test_the_pane_says_that_the_viewer_does_not_answer(opened: Open, viewer: Viewer) -> None:
    page = opened(viewer, "/notes")
    page.route("**/sample?*part=1*", lambda route: route.abort())
    page.goto(f"{viewer.url}/runs/letters/samples?task=letters")
    page.get_by_text("The viewer does not answer. Check that gage view is running").wait_for()


def test_the_pane_of_an_empty_list_asks_for_nothing(opened: Open, viewer: Viewer) -> None:
    page = opened(viewer, "/runs/letters/samples?task=letters&q=not-there")
    assert page.locator("#pane").inner_text() == "No answer is listed."
    page.goto(f"{viewer.url}/runs/letters/samples?task=letters&open=elsewhere")
    page.locator("#pane", has_text="Choose an answer").wait_for()


@pytest.mark.parametrize("width", [1440, 1024])
def test_the_list_and_its_answer_fit_the_window(opened: Open, viewer: Viewer, width: int) -> None:
    page = opened(viewer, "/runs/letters/samples?task=letters&q=status:wrong", (width, 800))
    page.locator("#pane article").wait_for()
    assert page.locator("section.left").evaluate("list => list.scrollWidth - list.clientWidth") == 0
    assert page.evaluate("document.documentElement.scrollHeight - innerHeight") == 0
    assert page.get_by_role("columnheader", name="expected").is_visible()
    assert page.title().startswith("letter-1 ")


def test_a_row_of_the_list_is_a_card_on_a_phone(opened: Open, viewer: Viewer) -> None:
    page = opened(viewer, "/runs/letters/samples?task=letters&q=status:wrong", NARROW)
    row = page.locator("table.list tbody tr").first
    heights = [row.locator(f".c-{name}").bounding_box() for name in ("id", "status", "asked", "read", "expected")]
    sample, status, question, read, expected = (round(box["y"] + box["height"] / 2) for box in heights if box)
    assert abs(sample - status) <= 2
    assert sample < question < read
    assert read == expected


@pytest.mark.parametrize("path", ["/", "/runs/letters", "/runs/letters/samples?task=letters&q=status:wrong"])
def test_a_page_that_is_refreshed_keeps_all_of_its_content(opened: Open, viewer: Viewer, path: str) -> None:
    page = opened(viewer, path)
    if "samples" in path:
        page.locator("#pane article .why").wait_for()
        page.keyboard.press("j")
        shown(page, 2)
    shown_before, marked = page.locator("#main").inner_text(), page.locator("tr.on").all_inner_texts()
    page.evaluate("refresh()")
    assert page.locator("#main").inner_text() == shown_before
    assert page.locator("tr.on").all_inner_texts() == marked


def test_runs_without_a_common_task_are_not_offered_for_comparison(opened: Open, viewer: Viewer) -> None:
    page = opened(viewer, "/runs/letters/compare?with=demo")
    page.get_by_role("alert").filter(has_text="share no task").wait_for()
    assert page.get_by_text("Compare all the same").count() == 0


def test_a_link_without_the_token_asks_once_and_then_shows_its_page(browser: "Browser", viewer: Viewer) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{viewer.url}/runs/letters/samples?task=letters&q=status:wrong")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Open").click()
    page.locator("table.list").wait_for()
    assert page.url.endswith("/runs/letters/samples?task=letters&q=status:wrong")
    page.goto(f"{viewer.url}/runs/demo")
    assert page.locator("h1").inner_text().startswith("demo")
    context.close()


def test_flips_against_the_run_before_and_their_statistics(opened: Open, viewer: Viewer) -> None:
    page = opened(viewer, "/runs/letters")
    page.get_by_role("link", name="15 got worse").click()
    wait_for_index(page)
    page.locator(".why", has_text="In letters-before: B, right.").wait_for()
    assert len(rows(page)) == 15
    page.get_by_role("link", name="side by side").click()
    page.locator("h1", has_text="in 2 runs").wait_for()
    assert page.locator("del").first.inner_text().strip() == "B."
    page.goto(f"{viewer.url}/runs/letters/compare?with=letters-before")
    wait_for_index(page)
    assert "15 worse" in page.locator("table").first.inner_text()


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_ticked_runs_are_compared_where_they_differ(opened: Open, viewer: Viewer, size: tuple[int, int]) -> None:
    page = opened(viewer, "/?q=letters", size)
    compare = page.get_by_role("button", name="Compare these")
    assert not compare.is_visible()
    for run in ("letters", "letters-before"):
        page.get_by_role("checkbox", name=f"Compare {run}", exact=True).check()
    page.evaluate("document.activeElement.blur(); refresh()")
    compare.click()
    wait_for_index(page)
    page.get_by_role("link", name=re.compile("^where they differ 30$")).click()
    assert page.locator("table.matrix tbody tr").count() == 30
    assert page.locator("table.matrix tbody td .chip").all_inner_texts()[:2] in (["wrong", "right"], ["right", "wrong"])
    page.get_by_role("link", name="plots").click()
    page.get_by_role("heading", name="By topic").wait_for()
    page.go_back()
    rows_before = rows(page)
    page.locator("table.matrix [data-row]").first.click()
    page.locator("h1", has_text="in 2 runs").wait_for()
    page.go_back()
    assert rows(page) == rows_before


def test_heads_and_questions_of_the_matrix_stay_in_sight(opened: Open, viewer: Viewer) -> None:
    runs = ",".join(["letters", "letters-before", *(f"{run}/letters" for run in ("letters", "letters-before"))])
    page = opened(viewer, f"/matrix?runs={runs}&task=letters", (900, 600))
    page.set_viewport_size({"width": 990, "height": 600})
    box = page.locator(".matrix-box")
    before = [page.locator(f"table.matrix {place}").first.bounding_box() for place in ("thead th", "tbody th")]
    box.evaluate("box => box.scrollTo(300, 400)")
    head, question = (page.locator(f"table.matrix {place}").first.bounding_box() for place in ("thead th", "tbody th"))
    assert head == before[0], "in both directions"
    assert question is not None
    assert before[1] is not None
    assert question["x"] == before[1]["x"]
    assert question["y"] < before[1]["y"]
    assert page.evaluate("document.documentElement.scrollHeight - innerHeight") == 0


def test_a_note_is_kept_and_found_again(opened: Open, viewer: Viewer) -> None:
    page = opened(viewer, "/runs/letters/sample?task=letters&id=letter-1")
    page.keyboard.press("n")
    page.keyboard.type(HOSTILE)
    page.get_by_role("button", name="score is wrong").click()
    page.get_by_text("note: score wrong").wait_for()
    assert page.locator("section[aria-label=Notes] .said").first.inner_text() == HOSTILE
    (note,) = note_files(viewer.folder)
    assert (note["verdict"], note["metric"], note["text"]) == ("score_wrong", "multi_choice_accuracy", HOSTILE)
    page.goto(f"{viewer.url}/runs/letters/samples?task=letters&q=note:score_wrong")
    assert rows(page) == ["letter-1"]
    page.goto(f"{viewer.url}/runs/letters/sample?task=letters&id=letter-1")
    page.get_by_role("button", name="take back").click()
    page.get_by_text("note: score wrong").wait_for(state="detached")


def test_what_is_listed_can_be_downloaded(opened: Open, viewer: Viewer, tmp_path: Path) -> None:
    page = opened(viewer, "/runs/letters/samples?task=letters&q=status:right")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    with Path(download.value.path()).open(newline="") as file:
        assert [row["sample_id"] for row in csv.DictReader(file)] == [f"letter-{i}" for i in range(0, 60, 4)]


@pytest.mark.parametrize("policy", [True, False])
def test_hostile_texts_stay_texts_with_and_without_the_policy(opened: Open, viewer: Viewer, policy: bool) -> None:
    sample = quote(f"1{HOSTILE}")
    for path in (
        "/",
        "/runs/hostile",
        "/runs/hostile/samples?task=hostile",
        f"/runs/hostile/samples?task=hostile&q={quote(HOSTILE)}",
        f"/runs/hostile/sample?task=hostile&id={sample}",
        f"/runs/hostile/side-by-side?with=letters&task=hostile&id={sample}",
        "/matrix?runs=hostile,hostile/hostile",
        "/matrix/plots?runs=hostile,hostile/hostile",
        f"/runs/{sample}",
        "/runs/hostile/report",
        "/notes",
    ):
        page = opened(viewer, path, bypass_csp=not policy)
        assert page.locator("img[src=x]").count() == 0
        assert page.evaluate("window.hit") is None


def test_a_run_of_a_million_answers_is_searched_sorted_and_paged(opened: Open, large_viewer: Viewer) -> None:
    page = opened(large_viewer, "/runs/large/samples?task=sums")
    assert f"{LARGE_ROWS:,}" in page.locator(".foot").inner_text()
    page.get_by_role("link", name="last").click()
    page.locator(f"text=sample-{LARGE_ROWS - 1:07}").first.wait_for()
    page.goto(f"{large_viewer.url}/runs/large/samples?task=sums&q=sample-0000777&sort=tokens&desc=1")
    assert rows(page) == ["sample-0000777"]
    page.locator(".why").wait_for()
    page.goto(f"{large_viewer.url}/runs/large/samples?task=sums&where=tokens%20%3E%20200&sort=answer")
    assert len(rows(page)) == 50
