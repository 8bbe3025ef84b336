"""Answers of HTTP servers, and what bad servers, proxies and networks make of them."""

import random
from collections.abc import Callable

_JSON = b'{"choices": [{"message": {"content": "ANSWER: 42"}}]}'
_GOOD = (
    b"HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_JSON), _JSON),
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nServer: uvicorn\r\n\r\n"
    b"1a\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (_JSON[:26], len(_JSON) - 26, _JSON[26:]),
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;name=value\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + _JSON,
    b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nContent-Length: 4\r\n\r\nslow",
    b"HTTP/1.1 500 Internal Server Error\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbad\r\n0\r\n\r\n",
)
_LINES = (
    b"Content-Length: 5",
    b"Content-Length: 0",
    b"Content-Length: 4, 5",
    b"Content-Length: +5",
    b"Content-Length: 0x5",
    b"Content-Length: 99999999999999999999999",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: identity",
    b"Transfer-Encoding: gzip",
    b"Transfer-Encoding: chunked, chunked",
    b"Transfer-Encoding : chunked",
    b"Connection: keep-alive",
    b"Connection: close",
    b"Connection: upgrade",
    b"Upgrade: websocket",
    b"Keep-Alive: timeout=5",
    b" folded",
    b"\tfolded",
    b"no colon",
    b": no name",
    b"X-Empty:",
    b"X-High: \xff\xfe",
    b"X-Control: a\x01b",
    b"Trailer: X-Sum",
)
_BYTES = (b"\r", b"\n", b"\r\n", b" ", b"\t", b":", b"\0", b"\xff", b"0", b"5", b"f", b";", b",", b"H", b"HTTP/1.1 ")
_NUMBERS = (b"0", b"00", b"1", b"4", b"6", b"99", b"100", b"101", b"199", b"204", b"205", b"304", b"600", b"-1", b"1e1")

Change = Callable[[random.Random, bytes], bytes]


def mutated(seed: int) -> bytes:
    """The answer of a seed: a good one, changed in one to three places."""
    draw = random.Random(seed)
    answer = draw.choice(_GOOD)
    for _ in range(draw.choice((1, 1, 2, 3))):
        answer = draw.choice(_CHANGES)(draw, answer)
    return answer


def pieces_of(seed: int, answer: bytes) -> list[bytes]:
    """The answer cut at some places."""
    draw = random.Random(~seed)
    cuts = sorted(draw.randrange(len(answer) + 1) for _ in range(draw.choice((0, 1, 2, 8))))
    return [answer[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(answer)], strict=True) if start < stop]


def _truncate(draw: random.Random, answer: bytes) -> bytes:
    return answer[: draw.randrange(len(answer) + 1)]


def _set_byte(draw: random.Random, answer: bytes) -> bytes:
    at = draw.randrange(len(answer) + 1)
    return answer[:at] + bytes([draw.randrange(256)]) + answer[at + 1 :]


def _insert(draw: random.Random, answer: bytes) -> bytes:
    at = draw.randrange(len(answer) + 1)
    return answer[:at] + draw.choice(_BYTES) + answer[at:]


def _remove(draw: random.Random, answer: bytes) -> bytes:
    at = draw.randrange(len(answer) + 1)
    return answer[:at] + answer[at + draw.choice((1, 2, 10)) :]


def _repeat(draw: random.Random, answer: bytes) -> bytes:
    start, stop = sorted(draw.randrange(len(answer) + 1) for _ in range(2))
    return answer[:stop] + answer[start:]


def _add_line(draw: random.Random, answer: bytes) -> bytes:
    lines = answer.split(b"\r\n")
    lines.insert(draw.randrange(len(lines) + 1), draw.choice(_LINES))
    return b"\r\n".join(lines)


def _move_line(draw: random.Random, answer: bytes) -> bytes:
    lines = answer.split(b"\r\n")
    lines.insert(draw.randrange(len(lines)), lines.pop(draw.randrange(len(lines))))
    return b"\r\n".join(lines)


def _change_number(draw: random.Random, answer: bytes) -> bytes:
    places = [at for at in range(len(answer)) if answer[at : at + 1].isdigit()]
    if not places:
        return answer
    start = stop = draw.choice(places)
    while answer[stop : stop + 1].isdigit():
        stop += 1
    return answer[:start] + draw.choice(_NUMBERS) + answer[stop:]


def _bare_line_feeds(draw: random.Random, answer: bytes) -> bytes:
    return answer.replace(b"\r\n", b"\n", draw.choice((1, 2, -1)))


def _append(draw: random.Random, answer: bytes) -> bytes:
    return answer + draw.choice((b"\r\n", b"x", b"\0", b"HTTP/1.1 200 OK\r\n", *_GOOD))


_CHANGES: tuple[Change, ...] = (
    _truncate,
    _set_byte,
    _insert,
    _remove,
    _repeat,
    _add_line,
    _move_line,
    _change_number,
    _bare_line_feeds,
    _append,
)
