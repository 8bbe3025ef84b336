"""Files of a megabyte: whether the memory of a run stays flat, and what they cost as base64 and by URL."""

import random
import shutil
from pathlib import Path

import orjson
import yaml

from bench.figures import Figure
from bench.process import BenchFailed, ProcessUsage, mock, run

_FEW, _SOME, _MANY = 200, 500, 2_000
FILE_BYTES = 1_000_000
MOST_MIB = 477.0
"""500 MB."""


def media_2k(folder: Path, repeats: int) -> list[Figure]:
    """A run of many recordings against a run of few."""
    few, many = ([recordings(folder, rows) for _ in range(repeats)] for rows in (_FEW, _MANY))
    return [
        Figure(f"{_FEW} files, peak memory", "MiB", [usage.peak_mib for usage in few], MOST_MIB),
        Figure(f"{_MANY:,} files, peak memory", "MiB", [usage.peak_mib for usage in many], MOST_MIB),
        Figure(f"{_MANY:,} files", "files/s", [_MANY / usage.wall_s for usage in many]),
        Figure(f"{_MANY:,} files, CPU", "s CPU / 1,000 rows", [usage.cpu_s * 1000 / _MANY for usage in many]),
    ]


def media_source(folder: Path, repeats: int) -> list[Figure]:
    """The same run with base64 and with URLs, in turns. The endpoint decodes and fetches."""
    text, url = [], []
    for _ in range(repeats):
        text.append(recordings(folder, _SOME, "base64"))
        url.append(recordings(folder, _SOME, "url"))
    unit = "s CPU / 1,000 rows"
    pairs = list(zip(url, text, strict=True))
    return [
        Figure("base64, CPU", unit, [usage.cpu_s * 1000 / _SOME for usage in text]),
        Figure("by URL, CPU", unit, [usage.cpu_s * 1000 / _SOME for usage in url]),
        Figure("by URL ÷ base64, CPU", "×", [mine.cpu_s / theirs.cpu_s for mine, theirs in pairs]),
        Figure("base64", "s", [usage.wall_s for usage in text]),
        Figure("by URL", "s", [usage.wall_s for usage in url]),
        Figure("by URL ÷ base64", "×", [mine.wall_s / theirs.wall_s for mine, theirs in pairs]),
        Figure("by URL, peak memory", "MiB", [usage.peak_mib for usage in url], MOST_MIB),
    ]


def recordings(folder: Path, rows: int, source: str = "base64") -> ProcessUsage:
    """A whole run, from an empty store, of one recording per row, all different."""
    place = folder / f"media-{rows}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    with (place / "rows.jsonl").open("wb") as lines:
        for row in range(rows):
            (place / f"{row}.wav").write_bytes(b"RIFF\0\0\0\0WAVE" + random.Random(row).randbytes(FILE_BYTES - 12))
            content = [
                {"type": "audio_url", "audio_url": {"url": f"{row}.wav"}},
                {"type": "text", "text": f"What is {row} + 1?"},
            ]
            record = {"id": str(row), "messages": [{"role": "user", "content": content}], "answer": str(row + 1)}
            lines.write(orjson.dumps(record) + b"\n")
    with mock("--read-media") as endpoint:
        config = {
            "datasets": [{"dataset_id": "media", "params": {"path": "rows.jsonl"}}],
            "backends": [
                {
                    "backend_id": "ear",
                    "type": "openai_http",
                    "config": {"base_url": endpoint.url, "model": "mock", "media_source": source},
                }
            ],
            "metrics": ["text_length"],
        }
        (place / "media.yaml").write_text(yaml.safe_dump(config))
        usage = run(
            ["-m", "gage_eval", "run", str(place / "media.yaml"), "--inline", "--store", str(place / "store")], place
        )
        if endpoint.answered() != rows:
            raise BenchFailed(f"{endpoint.answered()} requests were answered instead of {rows}")
    shutil.rmtree(place)
    return usage
