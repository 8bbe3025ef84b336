"""Promises of the viewer's door: only this machine, only with the token, only our own forms, and no foreign script."""

import asyncio
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from starlette.types import Message
from viewer_client import TOKEN, answers, run, viewer, write_questions

from gage_eval.report.messages import shown_messages


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("door")
    write_questions(folder)
    run(folder, "first", backends=answers("2"))
    return folder


@pytest.fixture
def stranger(folder: Path) -> TestClient:  # type: ignore[misc]
    with viewer(folder, token=False) as client:
        yield client


@pytest.mark.parametrize("address", ["/", "/runs/first", "/runs/first/samples", "/media/" + "0" * 64, "/nowhere"])
def test_nothing_is_shown_without_the_token(stranger: TestClient, address: str) -> None:
    response = stranger.get(address)
    assert response.status_code in (401, 404)
    assert "first" not in response.text.replace("/runs/first", "")
    assert stranger.get(address, params={"token": "wrong"}).status_code in (401, 404)


def test_a_link_with_the_token_opens_once_and_leaves_no_token_in_the_address(stranger: TestClient) -> None:
    response = stranger.get("/runs/first", params={"token": TOKEN, "against": "x"})
    assert response.status_code == 200
    assert TOKEN not in str(response.url)
    assert "against=x" in str(response.url)
    assert TOKEN not in response.text
    cookie = next(iter(stranger.cookies.jar))
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.value != TOKEN
    assert stranger.get("/runs/first").status_code == 200


def test_the_page_asks_for_the_token_and_then_goes_where_the_link_led(stranger: TestClient) -> None:
    response = stranger.get("/runs/first?q=1")
    assert response.status_code == 401
    assert 'value="/runs/first?q=1"' in response.text
    form = {"token": TOKEN, "address": "/runs/first?q=1"}
    response = stranger.post("/token", data=form, headers={"origin": "http://127.0.0.1:4280"})
    assert response.status_code == 200
    assert str(response.url).endswith("/runs/first?q=1")


@pytest.mark.parametrize(
    "address", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)"]
)
def test_the_token_form_leads_nowhere_else(stranger: TestClient, address: str) -> None:
    headers = {"origin": "http://127.0.0.1:4280"}
    response = stranger.post(
        "/token", data={"token": TOKEN, "address": address}, headers=headers, follow_redirects=False
    )
    assert response.headers["location"] == "/"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:4280", "", "[::2]:4280"])
def test_another_host_is_refused(stranger: TestClient, host: str) -> None:
    response = stranger.get("/", params={"token": TOKEN}, headers={"host": host})
    assert response.status_code == 421
    assert not stranger.cookies


@pytest.mark.parametrize(
    "headers", [{"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}]
)
def test_a_post_from_another_page_is_refused(stranger: TestClient, headers: dict[str, str]) -> None:
    assert stranger.post("/token", data={"token": TOKEN}, headers=headers).status_code == 403


def test_an_address_that_is_no_text_is_refused(folder: Path) -> None:
    """Browsers send none; another program of this machine may."""
    with viewer(folder) as client:
        started: list[int] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                started.append(message["status"])

        headers = [(b"host", b"127.0.0.1:4280")]
        scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"token=\xff", "headers": headers}
        asyncio.run(client.app(scope, receive, send))
        assert started == [400]


def test_media_in_an_address_of_their_own_are_shown(folder: Path) -> None:
    """Such as those of reference trajectories; the policy must allow what the page of a sample makes of them."""
    (message,) = shown_messages(
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]
    )
    assert [part.kind for part in message.parts] == ["image"]
    with viewer(folder) as client:
        assert "img-src 'self' data:;" in client.get("/runs/first").headers["content-security-policy"]


def test_pages_have_a_policy_without_inline_scripts_and_styles(folder: Path) -> None:
    with viewer(folder) as client:
        for address in ("/", "/runs/first", "/static/viewer.js", "/token"):
            response = client.get(address)
            policy = response.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert response.headers["x-content-type-options"] == "nosniff"
            assert " style=" not in response.text
            assert " onclick" not in response.text
