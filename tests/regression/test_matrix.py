"""Promises of the matrix: every cell runs even if another fails, and ranks show what chance does not exclude."""

from dataclasses import replace
from pathlib import Path

import orjson
import pytest
import yaml

from gage_eval.base.errors import ConfigError, InputError
from gage_eval.engine.host import SharedEngines
from gage_eval.regression.matrix import Matrix, averages, run_cells, standings, table
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.options import Locations
from gage_eval.runs.results.reading import RunReader
from tests.support.workspace import write_config, write_rows

COUNT = 300


def write_answers(folder: Path, name: str, right: int) -> None:
    rows = [{"id": f"s{n}", "output": str(n + 1) if n < right else "no"} for n in range(COUNT)]
    (folder / f"{name}.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    """Three models on one config: one is clearly the best, the other two cannot be told apart."""
    write_rows(tmp_path, COUNT)
    for name, right in (("best", 240), ("second", 151), ("third", 150)):
        write_answers(tmp_path, name, right)
    backend = {"backend_id": "model", "type": "replay", "config": {"path": "best.jsonl", "answer_field": "output"}}
    write_config(tmp_path, backends=[backend])
    models = [
        {"name": name, "options": {"overrides": [f"backends.model.config.path={name}.jsonl"]}}
        for name in ("best", "second", "third")
    ]
    file = tmp_path / "matrix.yaml"
    file.write_text(yaml.safe_dump({"rows": [{"config": "mine.yaml"}], "models": models}), encoding="utf-8")
    return file


def places(matrix: Path) -> Locations:
    return Locations.at(str(matrix.parent / "store"))


def run(options: RunOptions, host: SharedEngines) -> RunReader:
    return RunReader.open(Locations.at(options.store, options.output_dir), run_inline(options, host=host).run_id)


def test_ranks_are_ranges_that_chance_does_not_exclude(matrix: Path) -> None:
    config = Matrix.read(matrix)
    cells = run_cells(config, matrix.parent, places(matrix), run)
    assert [cell.error for cell in cells] == [None, None, None]
    ranking = standings(cells)
    assert [(standing.model, standing.ranks) for standing in ranking] == [
        ("best", "1"),
        ("second", "2–3"),
        ("third", "2–3"),
    ]
    assert [standing.number.value for standing in ranking] == [0.8, 151 / COUNT, 0.5]
    header, rows = table(ranking, cells)
    assert header == ["task", "metric", "n", "best", "second", "third"]
    assert rows[0][:3] == ["mine.yaml sums", "exact_match", str(COUNT)]
    assert rows[0][3].startswith("0.800 [0.75")
    assert rows[0][3].endswith("(1)")
    assert len(rows) == 1, "one task has no average"


def test_the_average_is_over_the_tasks_that_every_model_has_scored_and_has_an_interval(matrix: Path) -> None:
    config = Matrix.read(matrix)
    cells = run_cells(config, matrix.parent, places(matrix), run)
    ranking = standings(cells)
    models = [model.name for model in config.models]
    again = [replace(standing, row="again") for standing in ranking]
    lost = [replace(standing, row="lost") for standing in ranking if standing.model != "third"]
    means = averages([*ranking, *again, *lost], models)
    best_of = means[0]
    assert (best_of.model, best_of.score.value, best_of.tasks, best_of.of) == ("best", 0.8, 2, 3)
    best = best_of.score
    assert best.ends is not None
    # Two independent estimates: the interval is narrower by the root of two.
    own = ranking[0].number.ends
    assert own is not None
    assert best.ends[1] - best.ends[0] == pytest.approx((own[1] - own[0]) / 2**0.5, rel=1e-6)
    rated = [replace(x, number=x.number.model_copy(update={"bound_high": 10.0})) for x in again]
    assert averages([*ranking, *rated], models) == [], "a share and a rating have no mean"
    unbounded = [replace(x, number=x.number.model_copy(update={"bound_high": None})) for x in (*ranking, *again)]
    assert averages(unbounded, models) == []


def test_names_that_no_run_can_have_are_left_to_chance(matrix: Path) -> None:
    config = Matrix.read(matrix)
    best, second, third = config.models
    names = [best.model_copy(update={"name": "A b"}), second.model_copy(update={"name": "a-b"}), third]
    long = Matrix(name="x" * 99, rows=config.rows, models=names)
    cells = run_cells(config.model_copy(update={"models": names}), matrix.parent, places(matrix), run)
    runs = [cell.run.run_id for cell in cells if cell.run is not None]
    assert [run_id.startswith("matrix-1-") for run_id in runs] == [False, False, True]
    assert len(run_cells(long, matrix.parent, places(matrix), run)) == 3


def test_the_other_cells_run_if_one_fails(matrix: Path) -> None:
    (matrix.parent / "second.jsonl").unlink()
    cells = run_cells(Matrix.read(matrix), matrix.parent, places(matrix), run)
    assert [cell.error is None for cell in cells] == [True, False, True]
    assert "second.jsonl" in (cells[1].error or "")
    ranking = standings(cells)
    assert [(standing.model, standing.ranks) for standing in ranking] == [("best", "1"), ("third", "2")]
    _, rows = table(ranking, cells, runs=True)
    assert rows[0][4] == "failed"
    assert rows[1][3:] == [cells[0].run and cells[0].run.run_id, "", cells[2].run and cells[2].run.run_id]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rows: []\nmodels: [{name: a}]", "rows"),
        ("rows: [{suite: a, config: b}]\nmodels: [{name: a}]", r"rows\[0\]: name either a suite or a config"),
        ("rows: [gsm8kk]\nmodels: [{name: a}]", r"rows\[0\]: no suite 'gsm8kk'\..* Did you mean 'gsm8k'"),
        ("rows: [{config: mine.yml}]\nmodels: [{name: a}]", r"rows\[0\]: no config file '.*mine\.yml'\."),
        ("rows: [gsm8k]\nmodels: [{name: a}, {name: a}]", "'a' appears twice"),
        ("rows: [gsm8k]\nmodels: [{name: a, options: {max_sample: 3}}]", "max_sample"),
        ("rows: [gsm8k]\nmodels: [{name: a, modle: x}]", "modle"),
        ("rows: [\n", "not valid YAML"),
    ],
)
def test_mistakes_are_reported_in_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "matrix.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=sentence):
        Matrix.read(file)


def test_wrong_options_and_missing_rows_are_named_together(tmp_path: Path) -> None:
    file = tmp_path / "models.yaml"
    file.write_text(
        "rows: [gsm9k, {config: mine.yml, options: {max_sample: 2}}]\n"
        "models: [{name: a, options: {modl: x}}, {name: b, options: {modl: y}}]\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError) as caught:
        Matrix.read(file)
    assert [(problem.path, problem.message.partition(".")[0]) for problem in caught.value.problems] == [
        ("options of gsm9k with a", "modl: unknown key 'modl'"),
        ("options of mine.yml with a", "max_sample: unknown key 'max_sample'"),
        ("rows[0]", "no suite 'gsm9k'"),
        ("rows[1]", f"no config file '{tmp_path / 'mine'}"),
    ]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^no matrix file '.*none\.yaml'\.$"):
        Matrix.read(tmp_path / "none.yaml")


def test_a_config_whose_name_is_too_long_for_a_file_is_not_there(tmp_path: Path) -> None:
    file = tmp_path / "matrix.yaml"
    file.write_text(yaml.safe_dump({"rows": [{"config": f"{'a' * 300}.yaml"}], "models": [{"name": "m"}]}))
    with pytest.raises(ConfigError, match="no config file"):
        Matrix.read(file)
