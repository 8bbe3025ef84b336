"""Mutated answers: this client and aiohttp read the same body or both fail, and none of it reaches the next request.

`FUZZ=10000` in the environment tries that many answers in place of a few hundred.
"""

import asyncio
import os
import re
from typing import Any

import aiohttp
import pytest
from support.http_server import Exchange, client_of, on_both_loops, served
from support.mutations import mutated, pieces_of

from gage_eval.models.client.connection import Answer, Connection
from gage_eval.models.client.http1 import FAILURES, HTTPClient, NoAnswer

COUNT = int(os.environ.get("FUZZ", "600"))
AT_ONCE = 20
# Where aiohttp reads an answer and we refuse it, for one of these reasons. All are required or allowed by RFC 9112:
# aiohttp switches these checks of the same parser off, so that it can talk to servers that no model runs behind.
STRICTER = re.compile(
    # Control characters in a header, a folded header, a bare CR.
    r"Invalid header (value|field) char|Unexpected (whitespace after header value|space after start line)"
    r"|Expected LF after CR"
    # Two lengths that may contradict each other: what smuggles answers.
    r"|Content-Length can't be present with Transfer-Encoding|Transfer-Encoding can't be present with Content-Length"
    # A coding that is not known: aiohttp gives the coded bytes as the body.
    r"|in the transfer coding"
    # aiohttp gives 101 as an answer without a body.
    r"|switches to another protocol"
)

Outcome = tuple[int, bytes] | str


async def answers_of_a_seed(exchange: Exchange) -> None:
    """Answer the request to ``/SEED`` with the mutated answer of this seed, and close the connection."""
    await exchange.request()
    exchange.writer.write(mutated(_seed_of(exchange)))
    await exchange.writer.drain()


def _seed_of(exchange: Exchange) -> int:
    return int(exchange.seen.requests[-1].split(b" ")[1].rpartition(b"/")[2])


async def ours(client: HTTPClient, path: str) -> Outcome:
    try:
        answer = await client.post(path, b"{}")
    except NoAnswer:
        return "hangs"
    except FAILURES as error:
        return f"fails: {error}"
    return answer.status, answer.body


async def theirs(session: aiohttp.ClientSession, url: str) -> Outcome:
    while True:
        try:
            async with session.post(url, data=b"{}", allow_redirects=False) as reply:
                return reply.status, await reply.read()
        except aiohttp.ClientOSError as error:
            if "Can not write request body" not in str(error):
                return f"fails: {error}"
            # The answer came, and the connection ended, before it noticed that the request was written.
        except (aiohttp.ClientError, ValueError) as error:
            return f"fails: {error}"


@on_both_loops
async def test_both_clients_read_the_same_body_or_both_fail() -> None:
    wrong: list[Any] = []
    read = 0

    async def compare(seed: int) -> None:
        nonlocal read
        async with turn:
            ours_read, other = await ours(client, str(seed)), await theirs(session, f"{seen.url}/{seed}")
        read += not isinstance(ours_read, str)
        if isinstance(ours_read, str):
            same = ours_read != "hangs" and (isinstance(other, str) or STRICTER.search(ours_read) is not None)
        else:
            same = ours_read == other
        if not same:
            wrong.append((seed, mutated(seed), ours_read, other))

    turn = asyncio.Semaphore(AT_ONCE)
    async with (
        served(answers_of_a_seed) as seen,
        client_of(seen.url) as client,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        await asyncio.gather(*(compare(seed) for seed in range(COUNT)))
    assert wrong == []
    assert COUNT / 10 < read < COUNT


@on_both_loops
async def test_nothing_of_a_mutated_answer_is_in_the_next_one() -> None:
    async def mutated_then_good(exchange: Exchange) -> None:
        while True:
            path = (await exchange.request()).split(b" ")[1].rpartition(b"/")[2]
            if path.startswith(b"good"):
                exchange.writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(path), path))
                continue
            seed = int(path)
            for piece in pieces_of(seed, mutated(seed)):
                exchange.writer.write(piece)
                await asyncio.sleep(0)
            # An answer that is not complete would be waited for.
            exchange.hang_up_after(0.03)

    wrong = []

    async def ask(seeds: range) -> None:
        # One request at a time: the next one meets whatever is left of the one before.
        async with client_of(seen.url) as client:
            for seed in seeds:
                first, second = await ours(client, str(seed)), await ours(client, f"good-{seed}")
                # The server may hang up just when the second one is sent.
                lost = isinstance(second, str) and "closed the connection" in second
                if first == "hangs" or not (lost or second == (200, b"good-%d" % seed)):
                    wrong.append((seed, mutated(seed), first, second))

    async with served(mutated_then_good) as seen:
        share = -(-COUNT // AT_ONCE)
        await asyncio.gather(*(ask(range(start, min(start + share, COUNT))) for start in range(0, COUNT, share)))
    assert wrong == []


class Wire:
    """A transport that only knows whether it was closed; also who keeps the connection."""

    watches_idleness = False

    def __init__(self) -> None:
        self.closed = False

    def write(self, data: bytes) -> None: ...

    def abort(self) -> None:
        self.closed = True

    def now(self) -> float:
        return 0.0

    def opened(self, connection: Connection) -> None: ...

    def lost(self, connection: Connection) -> None: ...

    def get_extra_info(self, name: str) -> Any:
        assert name == "socket"
        return self

    def fileno(self) -> int:
        return 0


async def outcome_of(pieces: list[bytes]) -> Outcome:
    """What a connection makes of the pieces and the end after them."""
    wire = Wire()
    connection = Connection(wire)
    connection.connection_made(wire)  # type: ignore[arg-type]
    request = asyncio.ensure_future(connection.ask(b"POST / HTTP/1.1\r\n\r\n"))
    await asyncio.sleep(0)
    for piece in pieces:
        if not wire.closed:
            connection.data_received(piece)
    if not wire.closed:
        connection.eof_received()
    connection.connection_lost(None)
    try:
        answer: Answer = await request
    except FAILURES as error:
        return f"fails: {error}"
    return answer.status, answer.body


@pytest.mark.parametrize("single_bytes", [False, True])
async def test_it_does_not_matter_where_an_answer_is_cut(single_bytes: bool) -> None:
    wrong = []
    for seed in range(COUNT):
        answer = mutated(seed)
        whole = await outcome_of([answer])
        pieces = [answer[at : at + 1] for at in range(len(answer))] if single_bytes else pieces_of(seed, answer)
        cut = await outcome_of(pieces)
        # Bytes after the end that are not HTTP spoil an answer only if they come with its last ones.
        spoilt = isinstance(whole, str) and "not HTTP" in whole
        if cut != whole and not (spoilt and not isinstance(cut, str)):
            wrong.append((seed, answer, whole, cut))
    assert wrong == []
