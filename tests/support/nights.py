"""Nights of two models with recorded answers, without a server."""

from collections.abc import Callable, Mapping
from pathlib import Path

import orjson
import yaml

from gage_eval.engine.host import SharedEngines
from gage_eval.regression.baselines import Baselines
from gage_eval.regression.nightly import Night, NightCell, Nightly, run_night
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.folder import has_run
from gage_eval.runs.options import Locations
from gage_eval.runs.results.reading import RunReader
from gage_eval.store import Store
from tests.support.workspace import write_config, write_rows

COUNT = 400
FIRST, SECOND = "2026-03-01", "2026-03-02"


def answer(folder: Path, name: str, right: int) -> None:
    """Recorded answers of a model, the first ones right."""
    rows = [{"id": f"s{n}", "output": str(n + 1) if n < right else "no"} for n in range(COUNT)]
    (folder / f"{name}.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))


def two_models(folder: Path) -> Nightly:
    """A file of nightly runs with the models `steady` and `shaky`, which have 320 of 400 right."""
    write_rows(folder, COUNT)
    for name in ("steady", "shaky"):
        answer(folder, name, 320)
    backend = {"backend_id": "model", "type": "replay", "config": {"path": "steady.jsonl", "answer_field": "output"}}
    write_config(folder, backends=[backend])
    models = [
        {"name": name, "options": {"overrides": [f"backends.model.config.path={name}.jsonl"]}}
        for name in ("steady", "shaky")
    ]
    rows = [{"config": "mine.yaml"}]
    schedule = {"cron": "0 2 * * *", "timezone": "Europe/Berlin"}
    text = yaml.safe_dump({"name": "every-night", "schedule": schedule, "rows": rows, "models": models})
    return Nightly.of_text(text, "nightly.yaml")


def night_of(
    nightly: Nightly,
    folder: Path,
    label: str,
    configs: Mapping[str, str] | None = None,
    told: Callable[[NightCell], None] = lambda cell: None,
) -> Night:
    """Run the night of a label, with the configs of the folder by default. The store is in the folder."""
    locations = Locations.at(str(folder / "store"))

    def run(options: RunOptions, host: SharedEngines) -> RunReader:
        assert options.run_id is not None
        resumable = options.model_copy(update={"resume": has_run(locations, options.run_id)})
        return RunReader.open(locations, run_inline(resumable, host=host).run_id)

    return run_night(nightly, label, configs or nightly.configs_in(folder), locations, run, told)


def set_baselines(night: Night, folder: Path) -> None:
    """Make each run of a night the baseline of its model."""
    baselines = Baselines(Store.open(str(folder / "store")))
    for cell in night.cells:
        assert cell.run is not None
        baselines.add(cell.model.baseline_name, [cell.run], promote=False)
