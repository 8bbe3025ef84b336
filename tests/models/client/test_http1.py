"""The HTTP client against servers that do everything a server may do, and much that it may not."""

import asyncio
import time

import pytest
from support.http_server import OK, Exchange, Script, answer_all, client_of, on_both_loops, served
from support.waiting import Stopwatch

from gage_eval.models.client import connection as connections
from gage_eval.models.client import http1
from gage_eval.models.client.connect import Unreachable
from gage_eval.models.client.connection import Answer, Broken, Sink, Unusable
from gage_eval.models.client.http1 import NoAnswer


def replies(*pieces: bytes, closes: bool = False) -> Script:
    async def script(exchange: Exchange) -> None:
        while True:
            await exchange.request()
            await exchange.send(*pieces)
            if closes:
                return

    return script


async def answer_to(*pieces: bytes, closes: bool = False) -> Answer:
    async with served(replies(*pieces, closes=closes)) as seen, client_of(seen.url) as client:
        return await client.post("x", b"{}")


@on_both_loops
async def test_a_request_is_complete_and_asks_for_nothing_it_does_not_need() -> None:
    async with served() as seen, client_of(f"{seen.url}?api-version=1") as client:
        answer = await client.post("chat/completions", b'{"a": 1}')
    head, _, body = seen.requests[0].partition(b"\r\n\r\n")
    assert (answer.status, answer.body, body) == (200, b"{}", b'{"a": 1}')
    assert head.decode().split("\r\n") == [
        "POST /v1/chat/completions?api-version=1 HTTP/1.1",
        f"Host: 127.0.0.1:{seen.port}",
        "Accept-Encoding: identity",
        "User-Agent: gage-eval",
        "Content-Type: application/json",
        "Content-Length: 8",
    ]


@on_both_loops
async def test_requests_one_after_the_other_share_a_connection() -> None:
    async with served() as seen, client_of(seen.url) as client:
        for _ in range(5):
            await client.post("x", b"{}")
    assert (len(seen.requests), seen.connections) == (5, 1)


@on_both_loops
async def test_many_at_once_get_each_its_own_answer() -> None:
    async def echo(exchange: Exchange) -> None:
        while True:
            body = (await exchange.request()).partition(b"\r\n\r\n")[2]
            await asyncio.sleep(int(body) % 7 / 1000)
            exchange.writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

    async with served(echo) as seen, client_of(seen.url) as client:
        for _ in range(3):
            answers = await asyncio.gather(*(client.post("x", b"%d" % n) for n in range(300)))
            assert [answer.body for answer in answers] == [b"%d" % n for n in range(300)]
    assert seen.connections <= 300


@pytest.mark.parametrize("last_words", [b"", b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n"])
@on_both_loops
async def test_a_connection_that_the_server_closed_while_it_rested_is_not_used(last_words: bytes) -> None:
    async def once(exchange: Exchange) -> None:
        await exchange.request()
        await exchange.send(OK, last_words)

    async with served(once) as seen, client_of(seen.url) as client:
        for _ in range(3):
            assert (await client.post("x", b"{}")).status == 200
            await asyncio.sleep(0.1)
    assert (len(seen.requests), seen.connections) == (3, 3)


@on_both_loops
async def test_the_end_of_a_connection_is_seen_even_where_the_loop_was_too_busy_to_look() -> None:
    closed = asyncio.Event()

    async def once(exchange: Exchange) -> None:
        await exchange.request()
        exchange.writer.write(OK)
        exchange.writer.close()
        await exchange.writer.wait_closed()
        closed.set()

    async with served(once) as seen, client_of(seen.url) as client:
        for _ in range(20):
            assert (await client.post("x", b"{}")).status == 200
            time.sleep(0.002)  # noqa: ASYNC251 - the loop is busy
            assert (await client.post("x", b"{}")).status == 200
    assert len(seen.requests) == 40


@on_both_loops
async def test_a_request_that_was_sent_is_never_sent_again_by_itself() -> None:
    async def closes_on_the_second(exchange: Exchange) -> None:
        await exchange.request()
        await exchange.send(OK)
        await exchange.request()

    async with served(closes_on_the_second) as seen, client_of(seen.url) as client:
        await client.post("x", b"{}")
        with pytest.raises(Broken, match="the server closed the connection without an answer"):
            await client.post("x", b"{}")
        assert len(seen.requests) == 2


@on_both_loops
async def test_bytes_that_nobody_asked_for_are_no_answer_to_the_next_request() -> None:
    planted = b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nplanted"

    async def plants(exchange: Exchange) -> None:
        while True:
            await exchange.request()
            await exchange.send(OK, planted)

    async with served(plants) as seen, client_of(seen.url) as client:
        for _ in range(5):
            assert (await client.post("x", b"{}")).body == b"{}"
            await asyncio.sleep(0.02)
    assert len(seen.requests) == 5


@pytest.mark.parametrize("tail", [b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nplanted", b"HT", b"\r\nHTTP/1.1"])
@on_both_loops
async def test_another_answer_behind_the_first_is_not_wanted(tail: bytes) -> None:
    async with served(replies(OK + tail)) as seen, client_of(seen.url) as client:
        for _ in range(3):
            assert (await client.post("x", b"{}")).body == b"{}"
    assert seen.connections == 3


@pytest.mark.parametrize("tail", [b"x", b"}", b"0\r\n"])
@on_both_loops
async def test_an_answer_that_is_longer_than_it_says_is_refused(tail: bytes) -> None:
    with pytest.raises(Broken, match="not HTTP"):
        await answer_to(OK + tail)


@on_both_loops
async def test_a_caller_that_is_cancelled_leaves_nothing_for_the_next_one() -> None:
    received, cancelled = asyncio.Event(), asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        body = (await exchange.request()).partition(b"\r\n\r\n")[2]
        received.set()
        await cancelled.wait()
        exchange.writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        await answer_all(exchange)

    async with served(slow) as seen, client_of(seen.url) as client:
        first = asyncio.create_task(client.post("x", b"first"))
        await received.wait()
        first.cancel()
        cancelled.set()
        assert (await client.post("x", b"second")).body == b"second"
        with pytest.raises(asyncio.CancelledError):
            await first
    assert seen.connections == 2


@pytest.mark.parametrize(
    ("pieces", "body"),
    [
        ((b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n", b"a", b"bcd"), b"abcd"),
        ((b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n", b"2;x=y\r\ncd\r\n0\r\n\r\n"), b"abcd"),
        (
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n4\r\nabcd\r\n", b"0\r\nx-sum: 9\r\n\r\n"),
            b"abcd",
        ),
        ((b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",), b""),
        ((b"HTTP/1.1 200 OK\ncontent-length: 2\n\n{}",), b"{}"),
        ((b"H", b"TTP/1.1 20", b"0 OK\r", b"\nContent-Len", b"gth: ", b"2\r\n\r", b"\n{", b"}"), b"{}"),
        (
            (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n", OK),
            b"{}",
        ),
        ((b"HTTP/1.1 199 Odd\r\nx: y\r\n\r\n", OK), b"{}"),
    ],
)
@on_both_loops
async def test_however_an_answer_comes_it_is_whole_and_the_connection_stays(
    pieces: tuple[bytes, ...], body: bytes
) -> None:
    async with served(replies(*pieces)) as seen, client_of(seen.url) as client:
        for _ in range(2):
            assert (await client.post("x", b"{}")).body == body
    assert seen.connections == 1


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n",
    ],
)
@on_both_loops
async def test_a_connection_that_ends_with_its_answer_is_not_used_again(head: bytes) -> None:
    async with served(replies(head, b"{", b"}", closes=True)) as seen, client_of(seen.url) as client:
        for _ in range(2):
            assert (await client.post("x", b"{}")).body == b"{}"
    assert seen.connections == 2


@pytest.mark.parametrize(
    "pieces",
    [
        (),
        (b"HTTP/1.1 200 O",),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n",),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{",),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n",),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n",),
        (b"HTTP/1.1 100 Continue\r\n\r\n",),
    ],
)
@on_both_loops
async def test_half_an_answer_is_none(pieces: tuple[bytes, ...]) -> None:
    with pytest.raises(Broken, match=r"the server closed the connection (without an answer|in the middle)"):
        await answer_to(*pieces, closes=True)


@pytest.mark.parametrize(
    "answer",
    [
        b"not http at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: two\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n",
        b"HTTP/1.1 200 OK\r\nx: a\x00b\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}",
    ],
)
@on_both_loops
async def test_what_is_not_plain_http_is_no_answer(answer: bytes) -> None:
    with pytest.raises((Broken, Unusable)):
        await answer_to(answer, closes=True)


@pytest.mark.parametrize("status", [b"000", b"099"])
@on_both_loops
async def test_a_status_that_is_none_is_refused_at_once(status: bytes) -> None:
    with pytest.raises(Broken, match=f"status {status.decode()}"):
        await answer_to(b"HTTP/1.1 %s Odd\r\ncontent-length: 2\r\n\r\n{}" % status, closes=True)


@on_both_loops
async def test_a_redirect_is_an_answer_like_any_other() -> None:
    answer = await answer_to(b"HTTP/1.1 307 Moved\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n")
    assert (answer.status, answer.header(b"location")) == (307, "/elsewhere")


@on_both_loops
async def test_the_values_of_a_repeated_header_are_all_there() -> None:
    answer = await answer_to(b"HTTP/1.1 200 OK\r\nX-One: a\r\nx-one:  b \r\ncontent-length: 0\r\n\r\n")
    assert answer.header(b"x-one") == "a, b"
    assert answer.header(b"x-two") is None


@pytest.mark.parametrize(
    "piece",
    [
        b"x-filler: " + b"a" * 1000 + b"\r\n",
        b"a" * 1000,
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ],
)
@on_both_loops
async def test_a_head_without_an_end_is_given_up(piece: bytes) -> None:
    async def endless(exchange: Exchange) -> None:
        await exchange.request()
        if not piece.startswith(b"HTTP"):
            await exchange.send(b"HTTP/1.1 200 OK\r\n")
        while True:
            exchange.writer.write(piece * 10)
            await exchange.writer.drain()

    async with served(endless) as seen, client_of(seen.url) as client:
        with pytest.raises((Unusable, Broken), match=r"KiB of headers|not HTTP"):
            await client.post("x", b"{}")


@pytest.mark.parametrize(
    "piece", [b"1;" + b"x" * 5000 + b"\r\na\r\n", b"0\r\n" + b"t: t\r\n" * 5000, b"100\r\n" + b"a" * 256 + b"\r\n"]
)
@on_both_loops
async def test_a_body_without_an_end_is_given_up(piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_BODY", 100_000)

    async def endless(exchange: Exchange) -> None:
        await exchange.request()
        await exchange.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            exchange.writer.write(piece)
            await exchange.writer.drain()
            piece_is_over = piece.startswith(b"0")
            while piece_is_over:
                exchange.writer.write(b"t: t\r\n" * 100)
                await exchange.writer.drain()

    async with served(endless) as seen, client_of(seen.url) as client:
        with pytest.raises(Unusable, match=r"KiB of headers|an answer of more than"):
            await client.post("x", b"{}")


@on_both_loops
async def test_a_body_that_says_it_is_too_large_is_not_waited_for() -> None:
    with pytest.raises(Unusable, match="an answer of more than 256 MiB"):
        await answer_to(b"HTTP/1.1 200 OK\r\ncontent-length: 300000000\r\n\r\n")


@on_both_loops
async def test_an_answer_of_many_megabytes_comes_whole() -> None:
    body = bytes(range(256)) * 80_000
    answer = await answer_to(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body), body)
    assert answer.body == body


@on_both_loops
async def test_a_request_of_many_megabytes_goes_whole() -> None:
    body = bytes(range(256)) * 80_000
    async with served() as seen, client_of(seen.url) as client:
        for _ in range(2):
            assert (await client.post("x", body)).status == 200
    assert [request.partition(b"\r\n\r\n")[2] == body for request in seen.requests] == [True, True]
    assert seen.connections == 1


@on_both_loops
async def test_an_answer_before_the_request_was_sent_is_taken_and_ends_the_connection() -> None:
    async def refuses(exchange: Exchange) -> None:
        await exchange.reader.readuntil(b"\r\n\r\n")
        await exchange.send(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
        await asyncio.sleep(60)

    async with served(refuses) as seen, client_of(seen.url) as client:
        for _ in range(2):
            answer = await client.post("x", b"a" * 50_000_000)
            assert (answer.status, answer.body) == (413, b"no")
    assert seen.connections == 2


@on_both_loops
async def test_a_stream_is_read_while_it_comes() -> None:
    more = asyncio.Event()

    async def stream(exchange: Exchange) -> None:
        await exchange.request()
        await exchange.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n")
        await more.wait()
        await exchange.send(b"3\r\ntwo\r\n0\r\n\r\n")

    got: list[bytes] = []

    def sink_of(answer: Answer) -> Sink:
        assert answer.status == 200

        def take(piece: bytes) -> None:
            got.append(piece)
            more.set()

        return take

    async with served(stream) as seen, client_of(seen.url) as client:
        answer = await client.post("x", b"{}", sink_of)
    assert (got, answer.body) == ([b"one", b"two"], b"")


@on_both_loops
async def test_what_a_sink_raises_is_raised_to_the_caller() -> None:
    def refuses(piece: bytes) -> None:
        raise ValueError("not an event")

    async with served() as seen, client_of(seen.url) as client:
        with pytest.raises(ValueError, match="not an event"):
            await client.post("x", b"{}", lambda answer: refuses)
        assert (await client.post("x", b"{}")).body == b"{}"
    assert seen.connections == 2


@on_both_loops
async def test_an_answer_that_does_not_come_in_time_is_given_up() -> None:
    async with served(replies()) as seen, client_of(seen.url, timeout_s=0.1) as client:
        with Stopwatch() as watch, pytest.raises(NoAnswer, match=r"no answer within 0\.1 s"):
            await client.post("x", b"{}")
        assert watch.seconds < 2


@on_both_loops
async def test_many_requests_are_each_given_up_at_their_own_time() -> None:
    async def ask(after: float) -> float:
        await asyncio.sleep(after)
        began = time.monotonic()
        with pytest.raises(NoAnswer):
            await client.post("x", b"{}")
        return time.monotonic() - began

    async with served(replies()) as seen, client_of(seen.url, timeout_s=0.3) as client:
        with Stopwatch() as watch:
            taken = await asyncio.gather(*(ask(n / 20) for n in range(6)))
    assert min(taken) >= 0.29
    assert watch.seconds < 2


@pytest.mark.parametrize(
    "drops", [(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n", b"a", b"b"), (b"HTTP/1.1 2",), ()]
)
@on_both_loops
async def test_an_answer_that_stalls_is_given_up(drops: tuple[bytes, ...]) -> None:
    async with served(replies(*drops)) as seen, client_of(seen.url, idle_timeout_s=0.2) as client:
        with pytest.raises(NoAnswer, match=r"not a byte of the answer for 0\.2 s"):
            await client.post("x", b"{}")


@on_both_loops
async def test_an_answer_that_is_slow_but_steady_is_not() -> None:
    now, got, heard = 0.0, list[bytes](), asyncio.Event()

    async def steady(exchange: Exchange) -> None:
        nonlocal now
        await exchange.request()
        exchange.writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n")
        for _ in range(8):
            now += 0.3
            exchange.writer.write(b"a")
            await heard.wait()
            heard.clear()

    def take(piece: bytes) -> None:
        got.append(piece)
        heard.set()

    async with served(steady) as seen, client_of(seen.url, idle_timeout_s=0.5) as client:
        client.now = lambda: now
        await client.post("x", b"{}", lambda answer: take)
    assert b"".join(got) == b"a" * 8


@on_both_loops
async def test_a_connection_that_rests_too_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1, "KEEP_S", 0.1)
    left = asyncio.Event()

    async def watches(exchange: Exchange) -> None:
        try:
            await answer_all(exchange)
        finally:
            left.set()

    async with served(watches) as seen, client_of(seen.url) as client:
        await client.post("x", b"{}")
        await asyncio.wait_for(left.wait(), 60)
        await client.post("x", b"{}")
    assert seen.connections == 2


@on_both_loops
async def test_closing_ends_what_is_in_flight() -> None:
    received = asyncio.Event()

    async def silent(exchange: Exchange) -> None:
        await exchange.request()
        received.set()
        await exchange.request()

    async with served(silent) as seen, client_of(seen.url) as client:
        request = asyncio.create_task(client.post("x", b"{}"))
        await received.wait()
        await client.close()
        with pytest.raises(Broken):
            await request


@on_both_loops
async def test_nobody_listening_is_told_in_a_word() -> None:
    async with served() as seen:
        pass
    async with client_of(seen.url) as client:
        with pytest.raises(Unreachable, match=r"^connection refused$"):
            await client.post("x", b"{}")
