#!/usr/bin/env python3
"""The bare loop: sends the same requests as a run and only counts right answers.

bare_client.py DATA.jsonl http://127.0.0.1:PORT/v1 --concurrency 64
"""

import argparse
import asyncio
import re
from pathlib import Path

import aiohttp
import orjson
import uvloop

_ANSWER = re.compile(r"ANSWER: (-?\d+)")


async def ask_all(data: Path, url: str, concurrency: int) -> tuple[int, int]:
    """Number of rows, and of right answers."""
    rows = right = 0
    endpoint = f"{url}/chat/completions"
    with data.open("rb") as lines:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def work() -> None:
                nonlocal rows, right
                for line in lines:
                    record = orjson.loads(line)
                    body = {
                        "model": "mock",
                        "messages": [{"role": "user", "content": record["question"]}],
                        "temperature": 0,
                        "max_tokens": 512,
                    }
                    headers = {"Content-Type": "application/json"}
                    async with session.post(endpoint, data=orjson.dumps(body), headers=headers) as reply:
                        answer = orjson.loads(await reply.read())["choices"][0]["message"]["content"]
                    rows += 1
                    right += _ANSWER.findall(answer)[-1:] == [record["answer"]]

            await asyncio.gather(*(work() for _ in range(concurrency)))
    return rows, right


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("url")
    parser.add_argument("--concurrency", type=int, default=64)
    options = parser.parse_args()
    answered, correct = uvloop.run(ask_all(options.data, options.url, options.concurrency))
    print(orjson.dumps({"rows": answered, "right": correct}).decode())
