"""A run that is killed while a model makes videos fetches them later: no job is made twice."""

import json
import signal
from pathlib import Path

import pytest
import yaml
from crash.processes import Gage, until
from support.media_models import filmed, media_models
from support.waiting import PATIENCE_S

from gage_eval.base.canonical import sha256_hex
from gage_eval.runs.options import Locations
from gage_eval.runs.results.reading import RunReader
from gage_eval.store.media import media_url

PROMPTS = ["a fox runs", "a boat sinks", "an apple falls"]


@pytest.mark.parametrize("moment", ["in_progress", "fetching"])
def test_jobs_that_a_killed_run_began_are_fetched_and_none_is_made_twice(moment: str, tmp_path: Path) -> None:
    (tmp_path / "wishes.jsonl").write_text(
        "".join(json.dumps({"id": str(number), "question": prompt}) + "\n" for number, prompt in enumerate(PROMPTS))
    )
    gage = Gage(tmp_path)
    with media_models() as models:
        backend = {"base_url": models.url, "model": "director", "poll_s": 0.01, "max_concurrency": 2}
        config = {
            "datasets": [{"dataset_id": "wishes", "params": {"path": "wishes.jsonl"}}],
            "backends": [{"backend_id": "director", "type": "openai_videos", "config": backend}],
            "metrics": ["text_length"],
        }
        (tmp_path / "films.yaml").write_text(yaml.safe_dump(config))
        if moment == "in_progress":
            models.looks = 10**9
        else:
            models.sends.clear()
        process = gage.start("run", "films.yaml", "--run-id", "films")

        def is_there() -> bool:
            fetching = sum(path.endswith("/content") for path, _ in models.requests)
            # Not the files that are still being written.
            noted = [*gage.wip.glob("*/jobs/*-0")]
            return len(noted) == 2 and (moment == "in_progress" or fetching == 2)

        assert until(is_there, process), gage.said()
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
        assert len(models.jobs) == 2
        models.looks = 0
        models.sends.set()
        gage.finish("resume", "films")
    assert len(models.jobs) == 3
    assert sorted(models.jobs.values()) == sorted(PROMPTS)
    rows = RunReader.open(Locations.at(str(tmp_path / ".gage")), "films").task().rows()
    assert [row.responses[0]["answer"] for row in rows] == [media_url(sha256_hex(filmed(prompt))) for prompt in PROMPTS]
    assert not [*gage.wip.glob("*/jobs/*")]
