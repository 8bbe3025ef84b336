"""Clicks in the Prefect UI."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page


def log_in(page: "Page", ui_url: str, login: str) -> None:
    """Log in to the UI, as it asks once per browser."""
    page.goto(f"{ui_url}/login")
    page.locator("input[type=password]").fill(login)
    page.get_by_role("button", name="Login").click()
    page.wait_for_url(lambda url: "/login" not in url)


def open_form(page: "Page", ui_url: str, deployment: str) -> None:
    """Open the form of a deployment, by the clicks of a newcomer."""
    page.goto(f"{ui_url}/deployments")
    page.get_by_placeholder("Search deployments").fill(deployment)
    page.get_by_role("link", name=deployment, exact=True).click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("Custom run").click()
    page.get_by_text("Which samples are asked.").wait_for()


def fill_field(page: "Page", text: str, value: str) -> None:
    """Fill the first field of a form that stands after a text. The form does not connect its labels to its fields."""
    field = page.get_by_text(text).first.locator("xpath=following::*[self::input or self::textarea][1]")
    field.fill(value)
