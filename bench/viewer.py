"""gage view over a run of a million answers: start, index, pages, sorting, search, memory."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

from bench.figures import Figure
from bench.process import BenchFailed, environment, run

TOKEN = "bench"
_TIMES = 5
_LIST = "/runs/large/samples"
_WAIT_S = 900.0
# The page's policy allows no code from text, so the page is not polled.
_FIRST_PAINT = """() => new Promise((done) => {
  const seen = (list) => list.getEntriesByName("first-contentful-paint").forEach((entry) => done(entry.startTime));
  new PerformanceObserver(seen).observe({ type: "paint", buffered: true });
})"""


class Client:
    """A browser without a cache: one connection, with the token's cookie."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._connection = HTTPConnection("127.0.0.1", port, timeout=60)
        self._cookie = ""
        headers, _ = self._get(f"/?token={TOKEN}")
        self._cookie = headers["set-cookie"].partition(";")[0]

    def page(self, path: str, **query: str) -> tuple[float, str]:
        """Seconds until a page is there, and its text.

        Raises:
            BenchFailed: it is not a page.
        """
        address = f"{path}{'&' if '?' in path else '?'}{urlencode(query)}" if query else path
        began = time.perf_counter()
        _, text = self._get(address)
        return time.perf_counter() - began, text

    def ready(self, path: str) -> float:
        """Seconds until a page needs to wait for nothing."""
        began = time.perf_counter()
        while time.perf_counter() - began < _WAIT_S:
            if "<h1>One moment</h1>" not in self.page(path)[1]:
                return time.perf_counter() - began
            time.sleep(0.2)
        raise BenchFailed(f"{path} is not ready after {_WAIT_S:.0f} s")

    def _get(self, address: str) -> tuple[dict[str, str], str]:
        self._connection.request("GET", address, headers={"cookie": self._cookie})
        reply = self._connection.getresponse()
        text = reply.read().decode()
        if reply.status >= 400:
            raise BenchFailed(f"{address} answers {reply.status}:\n{text[-1500:]}")
        return {name.lower(): value for name, value in reply.getheaders()}, text


def viewer_1m(folder: Path, repeats: int) -> list[Figure]:
    """Everything that a person does with a million answers."""
    store = folder / "large"
    run(["-m", "bench.large_run", str(store), "--rows", "1000000"], folder)
    return measure(store, folder, repeats)


def viewer_matrix(folder: Path, repeats: int) -> list[Figure]:
    """Five runs of 100,000 answers side by side, in a viewer that has their indexes, and the first time."""
    store = folder / "side-by-side"
    names = [f"run-{number}" for number in range(5)]
    for seed, name in enumerate(names):
        run(["-m", "bench.large_run", str(store), "--rows", "100000", "--run-id", name, "--seed", str(seed)], folder)
    address = f"/matrix?runs={','.join(names)}"
    opens: list[float] = []
    pages: list[float] = []
    with viewer(store, folder) as (client, _, _):
        built = client.ready(address)
    for _ in range(repeats):
        with viewer(store, folder, keep=True) as (client, _, _):
            opens.append(client.page(address)[0])
            pages += [client.page(address, **query)[0] for number in range(_TIMES) for query in _matrix_queries(number)]
    return [
        Figure("indexes of 5 × 100,000 answers, and the matrix", "s", [built]),
        Figure("first page of a viewer that has its indexes", "s", opens, 0.5),
        Figure("filters, orders and searches, 95th percentile", "s", [_p95(pages)], 0.5),
    ]


def _matrix_queries(number: int) -> list[dict[str, str]]:
    """What a person asks of a matrix: filters, orders, searches."""
    return [
        {"show": "differ", "page": str(1 + number * 300)},
        {"sort": "spread", "desc": "1"},
        {"sort": str(number % 5), "q": "topic:algebra"},
        {"q": f'"on Tuesday {number}77"'},
    ]


def measure(store: Path, folder: Path, repeats: int) -> list[Figure]:
    """The figures of a store's run ``large``."""
    starts: list[float] = []
    for _ in range(repeats):
        began = time.perf_counter()
        with viewer(store, folder) as (client, pid, log):
            starts.append(time.perf_counter() - began)
            client.ready(_LIST)
            built = [float(seconds) for seconds in re.findall(r"answers in ([\d.]+) s", log.read_text())]
            memory_after_index = _peak_mib(pid)
            # The config of the run is read once, for the requests as they were sent.
            client.page("/runs/large/sample", id="sample-0000001")
            pages, sorts, searches = _pages(client), _sorts(client), _searches(client)
            paints = _first_paints(client.url)
            memory = _peak_mib(pid)
    return [
        Figure("server up", "s", starts, 2.0),
        Figure("index of 1,000,000 answers", "s", built or [0.0]),
        Figure("a page, 95th percentile", "s", [_p95(pages)], 0.2),
        Figure("sort by a column, 95th percentile", "s", [_p95(sorts)], 0.5),
        Figure("text search, 95th percentile", "s", [_p95(searches)], 1.5),
        Figure("first paint in Chromium, slowest of the pages", "s", [max(paints)], 1.0),
        Figure("peak memory with the index", "MiB", [memory_after_index]),
        Figure("peak memory", "MiB", [memory], 477.0),
    ]


def _pages(client: Client) -> list[float]:
    """Seconds of pages: runs, the run, lists with filters, deep pages, and answers from all over the run."""
    client.ready("/runs/large")
    requests: list[tuple[str, dict[str, str]]] = [("/", {}), ("/runs/large", {})]
    for number in range(_TIMES):
        requests += [
            (_LIST, {"page": str(1 + number * 4_000)}),
            (_LIST, {"q": "status:wrong", "page": str(1 + number * 1_000)}),
            (_LIST, {"q": f"topic:algebra tokens>{100 + number}"}),
            (_LIST, {"where": f"score < 0.5 AND tokens > {150 + number}"}),
            (_LIST, {"q": f"id:sample-0{number}00"}),
            ("/runs/large/sample", {"id": f"sample-{number * 199_999:07}"}),
            ("/runs/large/sample", {"id": f"sample-{number * 150_001:07}", "q": "status:wrong"}),
        ]
    return [client.page(path, **query)[0] for path, query in requests]


def _sorts(client: Client) -> list[float]:
    """Seconds of the first list by each column, both ways."""
    _, text = client.page(_LIST)
    columns = re.findall(r"Columns: <span class=\"mono\">([^<]*)</span>", text)[0].split(", ")
    return [
        client.page(_LIST, sort=name, desc=desc, q="row>=0")[0] for name in columns if name != "row" for desc in "01"
    ]


def _searches(client: Client) -> list[float]:
    """Seconds of searches for words that few, many and no answers have."""
    words = (
        "on Tuesday 77777",
        "I cannot say",
        "the answer is 3000",
        "nothing-has-this",
        "both days",
        "pens on Monday",
    )
    return [client.page(_LIST, q=f'"{word}"')[0] for word in words]


def _first_paints(url: str) -> list[float]:
    """Seconds from the click to the first paint of the run, a list and an answer, each in a browser without a cache."""
    from tools.chromium import chromium

    paints = []
    with chromium() as browser:
        for path in ("/runs/large", _LIST, f"{_LIST}?q=status:wrong", "/runs/large/sample?id=sample-0500000"):
            page = browser.new_page()
            page.goto(f"{url}/?token={TOKEN}")
            page.goto(f"{url}{path}")
            paints.append(page.evaluate(_FIRST_PAINT) / 1000)
            page.close()
    return paints


@contextmanager
def viewer(store: Path, folder: Path, *, keep: bool = False) -> Iterator[tuple[Client, int, Path]]:
    """A running viewer: a client, its process, and its output. Its cache is empty, or with ``keep`` the last one's."""
    caches = sorted(folder.glob("cache-*")) if keep else []
    cache = caches[-1] if caches else folder / f"cache-{time.time_ns()}"
    log = folder / "viewer.txt"
    env = {
        **environment(),
        "GAGE_EVAL_VIEWER_TOKEN": TOKEN,
        "GAGE_EVAL_VIEWER_CACHE": str(cache),
    }
    with log.open("wb") as out:
        child = subprocess.Popen(
            [sys.executable, "-m", "gage_eval", "view", "--store", str(store), "--no-open"],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=env,
        )
    try:
        yield Client(_port(log, child)), child.pid, log
    finally:
        child.terminate()
        child.wait(30)


def _port(log: Path, child: "subprocess.Popen[bytes]") -> int:
    while child.poll() is None:
        match = re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text())
        if match:
            return int(match[1])
        time.sleep(0.02)
    raise BenchFailed(f"gage view ended with {child.returncode}:\n{log.read_text()[-2000:]}")


def _peak_mib(pid: int) -> float:
    """The most resident memory that a process had."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.findall(r"VmHWM:\s*(\d+) kB", status)[0]) / 1024


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[min(int(0.95 * len(values)), len(values) - 1)]


if __name__ == "__main__":
    here = Path(sys.argv[2])
    os.makedirs(here, exist_ok=True)
    for figure in measure(Path(sys.argv[1]), here, 1):
        print(
            f"{figure.name}: {figure.median:.3f} {figure.unit}", "" if figure.target is None else f"(≤ {figure.target})"
        )
