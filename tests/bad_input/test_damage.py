"""What was damaged in the store is refused by name, removed on request and computed again; nothing else is."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.command import Command
from support.endpoint import mock_endpoint
from support.runs import stage_outputs, write_config

ROWS = 40


def part_of(folder: Path, stage: str, name: str) -> Path:
    """The first part of an output of the run ``first``."""
    artifact = stage_outputs(folder, "first")[f"sums/{stage}"][name]
    return folder / ".gage" / "artifacts" / artifact / "part-00000.parquet"


Damage = Callable[[Path], str]


def truncate(file: Path) -> str:
    """Cut the file; what the refusal says of it."""
    data = file.read_bytes()
    file.write_bytes(data[:-10])
    return f"has {len(data) - 10} bytes instead of {len(data)}"


def edit(file: Path) -> str:
    """Flip a bit in its middle; what the refusal says of it."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    return "has sha256"


@pytest.mark.parametrize(
    ("stage", "name"),
    [
        ("load", "raw"),
        ("standardize", "samples"),
        ("infer", "responses"),
        ("auto_eval", "metrics"),
        ("report", "report"),
    ],
)
def test_a_result_with_a_missing_part_is_not_a_hit(tmp_path: Path, gage: Command, stage: str, name: str) -> None:
    with mock_endpoint() as endpoint:
        write_config(tmp_path, endpoint.url, rows=ROWS)
        assert gage("run", "sums.yaml", "--run-id", "first").code == 0
        undamaged = stage_outputs(tmp_path, "first")
        part_of(tmp_path, stage, name).unlink()
        stages = json.loads(gage("plan", "sums.yaml", "--json").out)["stages"]
        planned = {row["stage"]: row["state"] for row in stages}
        assert planned[stage] != "cached"
        again = gage("run", "sums.yaml", "--run-id", "second")
        assert again.code == 0, again.err
        assert stage_outputs(tmp_path, "second") == undamaged
        assert part_of(tmp_path, stage, name).exists()
    assert gage("cache", "verify").code == 0


@pytest.mark.parametrize(
    "edit_outputs", [lambda outputs: {}, lambda outputs: dict.fromkeys(outputs, outputs["rejects"])]
)
def test_an_action_without_its_outputs_or_with_another_table_is_not_a_hit(
    tmp_path: Path, gage: Command, edit_outputs: Callable[[dict[str, str]], dict[str, str]]
) -> None:
    with mock_endpoint() as endpoint:
        write_config(tmp_path, endpoint.url, rows=ROWS)
        assert gage("run", "sums.yaml", "--run-id", "first").code == 0
        undamaged = stage_outputs(tmp_path, "first")
        (file,) = (tmp_path / ".gage" / "actions" / "standardize").iterdir()
        action = json.loads(file.read_bytes())
        file.write_text(json.dumps({**action, "outputs": edit_outputs(action["outputs"])}))
        again = gage("run", "sums.yaml", "--run-id", "second")
        assert again.code == 0, again.err
    assert stage_outputs(tmp_path, "second") == undamaged


@pytest.mark.parametrize("damage", [truncate, edit])
def test_a_damaged_part_is_refused_removed_and_computed_again(tmp_path: Path, gage: Command, damage: Damage) -> None:
    with mock_endpoint() as endpoint:
        write_config(tmp_path, endpoint.url, rows=ROWS)
        assert gage("run", "sums.yaml", "--run-id", "first").code == 0
        undamaged = stage_outputs(tmp_path, "first")
        part = part_of(tmp_path, "infer", "responses")
        problem = damage(part)
        write_config(tmp_path, endpoint.url, rows=ROWS, metrics=["text_length"])
        endpoint.phase("damaged")

        refused = gage("run", "sums.yaml")
        assert refused.code == 1
        assert refused.sentence.startswith(f"artifact {part.parent.name}: part-00000.parquet {problem}")
        assert refused.sentence.endswith(
            "; `gage cache verify --remove` deletes it, and the next run computes it again."
        )

        verified = gage("cache", "verify")
        assert verified.code == 1
        assert f"artifacts/{part.parent.name}/part-00000.parquet: " in verified.out
        assert part.exists(), "without --remove nothing is deleted"
        assert gage("cache", "verify", "--remove").code == 1
        assert "damaged" not in endpoint.stats()["phases"], "nothing was asked on the way"

        assert gage("run", "sums.yaml", "--run-id", "again").code == 0
        assert endpoint.stats()["phases"]["damaged"]["requests"] == ROWS
        assert gage("cache", "verify").code == 0
    assert stage_outputs(tmp_path, "again")["sums/infer"] == undamaged["sums/infer"]


@pytest.mark.parametrize(
    ("stage", "name"),
    [("load", "raw"), ("standardize", "rejects"), ("infer", "responses"), ("report", "report")],
)
def test_verify_compares_the_hashes_of_every_hit(tmp_path: Path, gage: Command, stage: str, name: str) -> None:
    """A flipped bit keeps the size, so that an ordinary run, which reads nothing of a hit, takes it."""
    with mock_endpoint() as endpoint:
        write_config(tmp_path, endpoint.url, rows=ROWS)
        assert gage("run", "sums.yaml", "--run-id", "first").code == 0
        assert gage("run", "sums.yaml", "--run-id", "whole", "--verify").code == 0
        part = part_of(tmp_path, stage, name)
        edit(part)
        for command in (("run", "sums.yaml", "--verify"), ("resume", "first", "--verify")):
            refused = gage(*command)
            assert refused.code == 1
            assert refused.sentence.startswith(f"artifact {part.parent.name}: part-00000.parquet has sha256 ")
            assert refused.sentence.endswith(
                "; `gage cache verify --remove` deletes it, and the next run computes it again."
            )
        assert gage("cache", "verify", "--remove").code == 1
        again = gage("run", "sums.yaml", "--run-id", "again", "--verify")
        assert again.code == 0, again.err
    assert stage_outputs(tmp_path, "again") == stage_outputs(tmp_path, "whole")


@pytest.mark.parametrize("place", ["manifest.json", "action", "index"])
def test_damage_beside_the_rows_is_refused_and_removed_too(tmp_path: Path, gage: Command, place: str) -> None:
    with mock_endpoint() as endpoint:
        write_config(tmp_path, endpoint.url, rows=ROWS)
        assert gage("run", "sums.yaml", "--run-id", "first").code == 0
        store = tmp_path / ".gage"
        if place == "manifest.json":
            file = part_of(tmp_path, "infer", "responses").with_name(place)
        elif place == "action":
            (file,) = (store / "actions" / "infer").iterdir()
        else:
            (file,) = (store / "index" / "responses").rglob("*.idx")
        truncate(file)
        # Other rows ask the index who answered them before.
        arguments = ("--max-samples", "30") if place == "index" else ()
        refused = gage("run", "sums.yaml", *arguments)
        assert refused.code == 1
        assert file.parent.name in refused.sentence or file.name in refused.sentence
        assert "`gage cache verify --remove`" in refused.sentence
        assert gage("cache", "verify", "--remove").code == 1
        assert gage("run", "sums.yaml", *arguments).code == 0
        assert gage("cache", "verify").code == 0
