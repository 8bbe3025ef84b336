"""Files of a megabyte, sent as base64: whether the memory of a run stays flat, and how fast they go through."""

import random
import shutil
from pathlib import Path

import orjson
import yaml

from bench.figures import Figure
from bench.process import BenchFailed, ProcessUsage, mock, run

_FEW, _MANY = 200, 2_000
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


def recordings(folder: Path, rows: int) -> ProcessUsage:
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
    with mock() as endpoint:
        config = {
            "datasets": [{"dataset_id": "media", "params": {"path": "rows.jsonl"}}],
            "backends": [
                {"backend_id": "ear", "type": "openai_http", "config": {"base_url": endpoint.url, "model": "mock"}}
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
