"""The cases: each returns its figures. The bare loop and our runs alternate, so that a busy machine slows both."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import orjson
import yaml

from bench.agents import agents, agents_10k
from bench.data import dataset
from bench.figures import Figure
from bench.lm_eval_task import lm_eval_task
from bench.media import media_2k, media_source
from bench.process import HERE, BenchFailed, Mock, ProcessUsage, mock, run
from bench.programs import canonical_programs, programs, programs_10k, programs_cruxeval
from bench.viewer import viewer_1m, viewer_matrix

IN_FLIGHT = 64
# Parts of 4,096 rows, which two scoring processes can divide evenly.
_SCORED_ROWS = 24 * 4096
# Half a millisecond per answer of ten words.
_SLOW_METRICS = ("bleu", "chrf", "ter")
_GAGE = ("-m", "gage_eval")
_WITHOUT_EVENTS = (str(HERE / "without_events.py"),)
_MOCK = ("--accuracy", "0.75")


@dataclass(frozen=True)
class Case:
    """One case.

    Attributes:
        name: as ``--case`` takes it.
        title: what is measured.
        measure: function of a work folder and a number of repetitions; returns the figures.
        repeats: repetitions.
        size: ``quick`` (always measured), ``standard``, or ``full`` (only with ``--full``).
    """

    name: str
    title: str
    measure: Callable[[Path, int], list[Figure]]
    repeats: int
    size: str = "standard"


def config(
    folder: Path, rows: int, url: str, metrics: tuple[str, ...] = ("numeric_match",), **backend: int | bool
) -> str:
    """Write a config with one task of that many rows against an endpoint. ``backend``: more fields of the backend."""
    content = {
        "datasets": [{"dataset_id": "bench", "params": {"path": str(dataset(folder, rows))}}],
        "backends": [
            {
                "backend_id": "mock",
                "type": "openai_http",
                "config": {
                    "base_url": url,
                    "model": "mock",
                    "max_concurrency": IN_FLIGHT,
                    "default_params": {"temperature": 0, "max_new_tokens": 512},
                    **backend,
                },
            }
        ],
        "metrics": list(metrics),
    }
    suffix = "".join(f"-{name}-{value}" for name, value in backend.items())
    path = folder / f"config-{rows}-{len(metrics)}{suffix}.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return str(path)


def start(folder: Path, repeats: int) -> list[Figure]:
    """Time from the start of the command to the score table, for one row."""
    helped, inline, served = [], [], []
    with mock("--latency-ms", "50") as endpoint:
        path = config(folder, 1, endpoint.url)
        for _ in range(repeats):
            helped.append(run([*_GAGE, "--help"], folder).wall_s)
            inline.append(_ours(folder, path).wall_s)
        from gage_eval.local import server

        running, _ = server.start(folder / "prefect")
        env = {"PREFECT_API_URL": running.api_url, "PREFECT_HOME": str(folder / "prefect")}
        env["PREFECT_API_AUTH_STRING"] = server.login(folder / "prefect")
        try:
            _ours(folder, path, "--prefect", env=env)  # the first flow of a fresh server
            served = [_ours(folder, path, "--prefect", env=env).wall_s for _ in range(repeats)]
        finally:
            server.stop(folder / "prefect")
    return [
        Figure("gage --help", "s", helped, 0.3),
        Figure("one row, inline", "s", inline, 1.5),
        Figure("one row, with a running Prefect server", "s", served, 6.0),
    ]


def rows_1319(folder: Path, repeats: int) -> list[Figure]:
    """A dataset as large as GSM8K's test split."""
    bare, ours = _in_turns(folder, 1319, 50, repeats)
    return [
        Figure("bare loop", "s", [usage.wall_s for usage in bare]),
        Figure("whole run, inline", "s", [usage.wall_s for usage in ours], 2.8),
    ]


def rows_10k(folder: Path, repeats: int) -> list[Figure]:
    """Cost of the client: what a run adds to a loop that only sends."""
    bare, ours = _in_turns(folder, 10_000, 50, repeats)
    return [
        Figure("bare loop", "s", [usage.wall_s for usage in bare]),
        Figure("whole run, inline", "s", [usage.wall_s for usage in ours], 11.5),
        Figure("whole run ÷ bare loop", "×", [a.wall_s / b.wall_s for a, b in zip(ours, bare, strict=True)], 1.2),
        Figure("bare loop, CPU", "s CPU / 1,000 rows", [usage.cpu_s / 10 for usage in bare]),
        Figure("whole run, CPU", "s CPU / 1,000 rows", [usage.cpu_s / 10 for usage in ours], 0.6),
    ]


def rows_10k_wide(folder: Path, repeats: int) -> list[Figure]:
    """As many requests at once as a fast endpoint takes."""
    bare, ours = _in_turns(folder, 10_000, 50, repeats, in_flight=256)
    return [
        Figure("bare loop", "s", [usage.wall_s for usage in bare]),
        Figure("whole run, inline", "s", [usage.wall_s for usage in ours]),
        Figure("whole run ÷ bare loop", "×", [a.wall_s / b.wall_s for a, b in zip(ours, bare, strict=True)], 1.7),
    ]


def events(folder: Path, repeats: int) -> list[Figure]:
    """What writing events costs: runs with the default rate, with every sample, and without an event log, in turns."""
    rows = 10_000
    none = ("--set", "observability.sample_rate=0")
    every = ("--set", "observability.sample_rate=1")
    without, default, all_samples = [], [], []
    with mock(*_MOCK) as endpoint:
        path = config(folder, rows, endpoint.url)
        for _ in range(repeats):
            without.append(_gage(folder, path, _fresh(folder), "--inline", *none, program=_WITHOUT_EVENTS))
            default.append(_ours(folder, path))
            all_samples.append(_ours(folder, path, "--inline", *every))
    return [
        Figure("without an event log, CPU", "s CPU / 1,000 rows", [usage.cpu_s / 10 for usage in without]),
        Figure("default ÷ without, CPU", "×", [a.cpu_s / b.cpu_s for a, b in zip(default, without, strict=True)], 1.03),
        Figure(
            "every sample ÷ without, CPU", "×", [a.cpu_s / b.cpu_s for a, b in zip(all_samples, without, strict=True)]
        ),
    ]


def engine(folder: Path, repeats: int) -> list[Figure]:
    """The stage infer of one process, and its memory with five times the rows."""
    counts = (20_000, 100_000)
    with mock("--latency-ms", "1", *_MOCK) as endpoint:
        few, many = (
            [_stages_alone(folder, "infer", config(folder, rows, endpoint.url), rows) for _ in range(repeats)]
            for rows in counts
        )
    timed = [orjson.loads(usage.output) for usage in many]
    return [
        Figure("100,000 rows", "answers/s", [counts[1] / result["wall_s"] for result in timed], 5_000.0, "≥"),
        Figure("100,000 rows, CPU", "s CPU / 1,000 rows", [result["cpu_s"] / 100 for result in timed]),
        Figure("20,000 rows, peak memory", "MiB", [usage.peak_mib for usage in few]),
        Figure(
            "100,000 rows ÷ 20,000 rows, peak memory",
            "×",
            [a.peak_mib / b.peak_mib for a, b in zip(many, few, strict=True)],
            1.1,
        ),
    ]


def rows_100k(folder: Path, repeats: int) -> list[Figure]:
    """Throughput and memory with a fast endpoint."""
    bare, ours = _in_turns(folder, 100_000, 2, repeats)
    return [
        Figure("bare loop", "s", [usage.wall_s for usage in bare]),
        Figure("whole run, inline", "s", [usage.wall_s for usage in ours], 35.0),
        Figure("whole run ÷ bare loop", "×", [a.wall_s / b.wall_s for a, b in zip(ours, bare, strict=True)], 1.1),
        Figure("whole run, CPU", "s CPU / 1,000 rows", [usage.cpu_s / 100 for usage in ours]),
        Figure("whole run ÷ bare loop, CPU", "×", [a.cpu_s / b.cpu_s for a, b in zip(ours, bare, strict=True)], 1.1),
        Figure("whole run, peak memory", "MiB", [usage.peak_mib for usage in ours], 350.0),
    ]


def new_metric(folder: Path, repeats: int) -> list[Figure]:
    """Three text metrics on 10,000 stored responses."""
    walls, sent = [], []
    with mock("--latency-ms", "2", *_MOCK) as endpoint:
        first = config(folder, 10_000, endpoint.url)
        second = config(folder, 10_000, endpoint.url, ("numeric_match", "exact_match", "contains", "token_f1"))
        for _ in range(repeats):
            store = _fresh(folder)
            _gage(folder, first, store)
            before = endpoint.answered()
            walls.append(_gage(folder, second, store).wall_s)
            sent.append(float(endpoint.answered() - before))
    return [
        Figure("whole run, inline", "s", walls, 1.5),
        Figure("requests sent", "requests", sent, 0.0),
    ]


def adaptive(folder: Path, repeats: int) -> list[Figure]:
    """Start with 256 in flight against an endpoint that refuses more than 16, each time for a second."""
    best, ours = [], []
    with mock("--latency-ms", "50", "--max-concurrency", "16", *_MOCK) as endpoint:
        fixed = config(folder, 2000, endpoint.url, max_concurrency=16, adaptive=False)
        free = config(folder, 2000, endpoint.url, max_concurrency=256)
        for _ in range(repeats):
            best.append(_ours(folder, fixed).wall_s)
            ours.append(_ours(folder, free).wall_s)
        if endpoint.answered() != 2 * repeats * 2000:
            raise BenchFailed(f"{endpoint.answered()} requests were answered instead of {2 * repeats * 2000}")
    return [
        Figure("fixed at 16", "s", best),
        Figure("adaptive, from 256", "s", ours),
        Figure("adaptive ÷ fixed", "×", [a / b for a, b in zip(ours, best, strict=True)], 1.2),
    ]


def front(folder: Path, repeats: int) -> list[Figure]:
    """load + standardize + preprocess of text samples."""
    return _front(folder, 100_000, repeats)


def front_1m(folder: Path, repeats: int) -> list[Figure]:
    """load + standardize + preprocess of a million rows."""
    # 400 MB.
    return _front(folder, 1_000_000, repeats, most_mib=381.0)


def rows_1m(folder: Path, repeats: int) -> list[Figure]:
    """Memory does not grow with the rows: a million rows, every 2,000th answered with 32,000 words."""
    usages = []
    with mock(*_MOCK, "--answer-words", "32000", "--long-share", "0.0005") as endpoint:
        path = config(folder, 1_000_000, endpoint.url)
        usages = [_ours(folder, path) for _ in range(repeats)]
    return [
        Figure("whole run, inline", "s", [usage.wall_s for usage in usages]),
        Figure("whole run, CPU", "s CPU / 1,000 rows", [usage.cpu_s / 1000 for usage in usages]),
        Figure("whole run, peak memory", "MiB", [usage.peak_mib for usage in usages], 600.0),
    ]


def score_1m(folder: Path, repeats: int) -> list[Figure]:
    """Scoring ten times the rows takes little more memory; for a per-sample metric and a corpus metric."""
    counts = (100_000, 1_000_000)
    for rows in counts:
        run([str(HERE / "score.py"), "make", str(folder / f"scored-{rows}"), "--rows", str(rows)], folder)
    figures = []
    for metric, least in (("exact_match", 50_000.0), ("word_perplexity", None)):
        few, many = ([scored(folder / f"scored-{rows}", metric) for _ in range(repeats)] for rows in counts)
        speeds = [counts[1] / orjson.loads(usage.output)["cpu_s"] for usage in many]
        figures += [
            Figure(f"{metric}, 1,000,000 rows, CPU", "rows/s per core", speeds, least, "≥"),
            Figure(f"{metric}, 100,000 rows, peak memory", "MiB", [usage.peak_mib for usage in few]),
            Figure(f"{metric}, 1,000,000 rows, peak memory", "MiB", [usage.peak_mib for usage in many], 300.0),
        ]
    return figures


def two_processes(folder: Path, repeats: int) -> list[Figure]:
    """Two processes against one, where scoring needs a whole core."""
    stored = folder / f"scored-{_SCORED_ROWS}"
    run([str(HERE / "score.py"), "make", str(stored), "--rows", str(_SCORED_ROWS)], folder)
    walls = [
        orjson.loads(scored(stored, *_SLOW_METRICS, processes=processes).output)["wall_s"]
        for _ in range(repeats)
        for processes in (1, 2)
    ]
    return _one_and_two("BLEU, chrF and TER of 98,304 answers", walls)


def _one_and_two(title: str, walls: list[float]) -> list[Figure]:
    """Figures of walls that were measured in turns: one process, two, one, …"""
    single, double = walls[::2], walls[1::2]
    return [
        Figure(f"{title}, one process", "s", single),
        Figure(f"{title}, two processes", "s", double),
        Figure(f"{title}, one ÷ two processes", "×", [a / b for a, b in zip(single, double, strict=True)], 1.8, "≥"),
    ]


CASES = (
    Case("start", "Start, one row", start, 5, "quick"),
    Case("rows_1319", "1,319 rows, 64 in flight, 50 ms (ideal 1.03 s)", rows_1319, 3, "quick"),
    Case("rows_10k", "10,000 rows, 64 in flight, 50 ms (ideal 7.8 s)", rows_10k, 3),
    Case("rows_10k_wide", "10,000 rows, 256 in flight, 50 ms (ideal 2.0 s)", rows_10k_wide, 3),
    Case("events", "10,000 rows, no latency: with and without an event log", events, 5),
    Case("engine", "infer alone: 100,000 rows, 64 in flight, 1 ms", engine, 1),
    Case("rows_100k", "100,000 rows, 64 in flight, 2 ms", rows_100k, 3),
    Case("adaptive", "2,000 rows, 50 ms, an endpoint that refuses more than 16 at a time (ideal 6.3 s)", adaptive, 5),
    Case("new_metric", "Three new metrics on 10,000 stored responses", new_metric, 3, "quick"),
    Case("front", "load + standardize + preprocess, 100,000 rows of text", front, 3, "quick"),
    Case("front_1m", "load + standardize + preprocess, 1,000,000 rows of text", front_1m, 1, "full"),
    Case("score_1m", "auto_eval of 100,000 and 1,000,000 stored answers of ten words", score_1m, 1, "full"),
    Case("two_processes", "Work that keeps a core busy, in one process and in two", two_processes, 1, "full"),
    Case("viewer_matrix", "gage view: 5 runs of 100,000 answers side by side", viewer_matrix, 5),
    Case("agents", "1,280 episodes of ten steps, 64 at a time, 50 ms per answer", agents, 3, "full"),
    Case("agents_10k", "10,000 episodes of ten steps, 64 at a time, 2 ms per answer", agents_10k, 1, "full"),
    Case("media_2k", "200 and 2,000 files of a megabyte, as base64", media_2k, 1, "full"),
    Case("media_source", "500 files of a megabyte, as base64 and by URL", media_source, 5, "full"),
    Case("programs", "The box: programs that a model wrote, with their tests", programs, 5, "full"),
    Case("canonical_programs", "The own solutions of the code suites, with their tests", canonical_programs, 1, "full"),
    Case("programs_10k", "The box: 10,000 executions", programs_10k, 1, "full"),
    Case("programs_cruxeval", "The box: the stored answers to CRUXEval", programs_cruxeval, 1, "full"),
    Case("viewer_1m", "gage view over 1,000,000 answers", viewer_1m, 1, "full"),
    Case("lm_eval_task", "gsm8k of the lm-eval harness, 1,319 rows, 64 in flight, 50 ms", lm_eval_task, 3, "full"),
    Case("rows_1m", "1,000,000 rows, 64 in flight, no latency, a few answers of 32,000 words", rows_1m, 1, "full"),
)


def _in_turns(
    folder: Path, rows: int, latency_ms: float, repeats: int, in_flight: int = IN_FLIGHT
) -> tuple[list[ProcessUsage], list[ProcessUsage]]:
    """Alternate the bare loop and a whole run, ``repeats`` times."""
    bare, ours = [], []
    with mock("--latency-ms", str(latency_ms), *_MOCK) as endpoint:
        path, data = config(folder, rows, endpoint.url, max_concurrency=in_flight), dataset(folder, rows)
        for _ in range(repeats):
            bare.append(_bare(folder, data, endpoint, in_flight))
            ours.append(_ours(folder, path))
        if endpoint.answered() != 2 * repeats * rows:
            raise BenchFailed(f"{endpoint.answered()} requests were answered instead of {2 * repeats * rows}")
    return bare, ours


def _bare(folder: Path, data: Path, endpoint: Mock, in_flight: int) -> ProcessUsage:
    return run([str(HERE / "bare_client.py"), str(data), endpoint.url, "--concurrency", str(in_flight)], folder)


def _stages_alone(folder: Path, measured: str, path: str, rows: int) -> ProcessUsage:
    usage = run([str(HERE / "stages_alone.py"), measured, path, "--store", str(_fresh(folder))], folder)
    made = orjson.loads(usage.output)["rows"]
    if made != rows:
        raise BenchFailed(f"{measured} made {made} rows of {rows}")
    return usage


def _ours(folder: Path, path: str, *options: str, env: dict[str, str] | None = None) -> ProcessUsage:
    """A whole run with an empty store."""
    return _gage(folder, path, _fresh(folder), *(options or ("--inline",)), env=env)


def _gage(
    folder: Path,
    path: str,
    store: Path,
    *options: str,
    env: dict[str, str] | None = None,
    program: tuple[str, ...] = _GAGE,
) -> ProcessUsage:
    usage = run([*program, "run", path, "--store", str(store), *(options or ("--inline",))], folder, env)
    if b"numeric_match" not in usage.output:
        raise BenchFailed(f"the run printed no score:\n{usage.output[-2000:].decode(errors='replace')}")
    return usage


def _front(folder: Path, rows: int, repeats: int, most_mib: float | None = None) -> list[Figure]:
    path = config(folder, rows, "http://127.0.0.1:9/v1")
    usages = [_stages_alone(folder, "front", path, rows) for _ in range(repeats)]
    results = [orjson.loads(usage.output) for usage in usages]
    return [
        Figure("CPU", "rows/s per core", [rows / result["cpu_s"] for result in results], 15_000.0, "≥"),
        Figure("three stages", "s", [result["wall_s"] for result in results]),
        Figure("peak memory", "MiB", [usage.peak_mib for usage in usages], most_mib),
    ]


def scored(store: Path, *metrics: str, processes: int = 1) -> ProcessUsage:
    """Run auto_eval for metrics without stored scores, on a copy of the store."""
    fresh = store.with_name("store")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(store, fresh, copy_function=os.link)
    options = [option for metric in metrics for option in ("--metric", metric)]
    options += ["--processes", str(processes)]
    usage = run([str(HERE / "score.py"), "measure", str(fresh), *options], store.parent)
    if orjson.loads(usage.output)["rows"] != int(store.name.rpartition("-")[2]):
        raise BenchFailed(f"the stage scored a wrong number of rows: {usage.output.decode()}")
    return usage


def _fresh(folder: Path) -> Path:
    """An empty store."""
    store = folder / "store"
    shutil.rmtree(store, ignore_errors=True)
    return store
