"""Task folders of Harbor become samples, and all that is wrong with them is said at once."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from gage_eval.base.errors import InputError
from gage_eval.data.datasets.harbor import HarborLoader

FILES = {
    "task.toml": 'artifacts = ["/app/out", {source = "/app/log"}]\n[metadata]\ndifficulty = "easy"\n',
    "instruction.md": "Write a file.\n",
    "environment/Dockerfile": "FROM debian:12\n",
    "tests/test.sh": "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n",
}


def task(folder: Path, **changes: str | None) -> Path:
    """A task folder with other files; None for a file that is missing."""
    for name, text in {
        **FILES,
        **{name.replace("__", "/").replace("_", "."): text for name, text in changes.items()},
    }.items():
        if text is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    return folder


def samples(path: Path, **params: Any) -> list[dict[str, Any]]:
    loader = HarborLoader({"path": str(path), **params}, path)
    assert loader.identity() == HarborLoader({"path": str(path), **params}, path).identity()
    return [json.loads(text) for _, text in loader.records()]


def test_a_folder_is_a_sample_with_its_image_its_artifacts_and_its_tests_out_of_sight(tmp_path: Path) -> None:
    task(tmp_path / "second", task_toml='[environment]\ndocker_image = "ubuntu:24.04"\nenv = {LEVEL = "3"}\n')
    task(tmp_path / "first", solution__solve_sh="#!/bin/sh\n")
    (tmp_path / "README.md").write_text("no task")
    first, second = samples(tmp_path, artifacts=["/srv"])
    assert first["messages"] == [{"role": "user", "content": "Write a file."}]
    assert first["data_tag"] == {"difficulty": "easy"}
    surroundings = first["metadata"]["execution"]
    assert (first["id"], surroundings["image"], surroundings["writable"]) == ("first", "harbor-first", True)
    assert surroundings["artifacts"] == ["logs/artifacts", "app/out", "app/log"]
    assert "/tests/test.sh" in first["metadata"]["tests"]
    assert "/solution/solve.sh" in first["metadata"]["solution"]
    assert "solution" not in second["metadata"]
    assert second["metadata"]["execution"]["image"] == "ubuntu:24.04"
    assert second["metadata"]["execution"]["env"] == {"LEVEL": "3"}
    assert second["metadata"]["execution"]["artifacts"] == ["logs/artifacts", "srv"]
    assert samples(tmp_path / "first") == [first]


def test_the_limits_of_a_task_are_those_of_its_sample_and_cpus_that_no_box_has_are_said(tmp_path: Path) -> None:
    said = 'artifacts = ["/a"]\nagent.timeout_sec = 90.5\nverifier.timeout_sec = 30\n[environment]\nmemory_mb = 512\n'
    task(tmp_path / "one", task_toml=f"{said}cpus = 1\n")
    task(tmp_path / "two", task_toml=f"{said}cpus = 4\n")
    task(tmp_path / "three")
    first, third, second = samples(tmp_path)
    limits = {"agent_s": 90.5, "tests_s": 30, "memory_mb": 512}
    assert first["metadata"]["execution"]["limits"] == second["metadata"]["execution"]["limits"] == limits
    assert "limits" not in third["metadata"]["execution"]
    (note,) = HarborLoader({"path": "."}, tmp_path).notes
    assert note == "1 of 3 tasks set cpus, and a box always has one processor: two."
    assert HarborLoader({"path": "one"}, tmp_path).notes == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"task_toml": 'artifacts = ["/a"]\n[agent]\ntimeout_sec = "90"'}, "agent.timeout_sec is not a number above 0"),
        ({"task_toml": 'artifacts = ["/a"]\n[verifier]\ntimeout_sec = -1'}, "verifier.timeout_sec is not a number"),
        ({"task_toml": 'artifacts = ["/a"]\n[environment]\nmemory_mb = inf'}, "environment.memory_mb is not a number"),
        ({"task_toml": 'artifacts = ["/a"]\n[environment]\ncpus = "two"'}, "environment.cpus is not a number above 0"),
        ({"task_toml": None}, "there is no task.toml"),
        ({"task_toml": "artifacts = ["}, "task.toml cannot be read"),
        ({"task_toml": "a = " + "[" * 3000}, "task.toml cannot be read: it is nested too deep"),
        ({"task_toml": "[agent]"}, "declares no artifacts"),
        ({"task_toml": '[agent]\nartifacts = ["/a"]'}, "put artifacts above the first table"),
        ({"task_toml": 'artifacts = ["out"]'}, "'out' is not an absolute path"),
        ({"task_toml": 'artifacts = ["/app/../tests"]'}, "is not an absolute path"),
        ({"task_toml": 'artifacts = ["/"]'}, "is not an absolute path"),
        ({"task_toml": 'artifacts = ["/logs"]'}, "'/logs' belongs to the tests"),
        ({"task_toml": 'artifacts = ["/tests/test.sh"]'}, "belongs to the tests"),
        ({"task_toml": 'artifacts = "/app"'}, "artifacts is not a list"),
        ({"task_toml": "artifacts = [3]"}, "3 is not an absolute path"),
        ({"task_toml": 'artifacts = ["/a"]\n[[steps]]\nname = "a"'}, "steps is not supported"),
        (
            {"task_toml": 'artifacts = ["/a"]\n[verifier.environment]\ncpus = 1'},
            "verifier.environment is not",
        ),
        ({"task_toml": 'artifacts = ["/a"]\n[agent]\nuser = "me"'}, "agent.user: only root"),
        ({"task_toml": 'artifacts = ["/a"]\n[environment]\nos = "windows"'}, "only linux"),
        ({"task_toml": 'artifacts = ["/a"]\nenvironment = 3'}, "environment is not a table"),
        ({"task_toml": 'artifacts = ["/a"]\n[environment.env]\nA = "${KEY}"'}, "environment.env.A names a variable"),
        ({"task_toml": 'artifacts = ["/a"]\n[verifier.env]\n"A B" = "x"'}, "is not a variable with a text"),
        ({"task_toml": 'artifacts = ["/a"]\n[environment]\ndocker_image = 3'}, "is not the name of an image"),
        ({"environment__Dockerfile": None}, "neither environment.docker_image nor environment/Dockerfile"),
        ({"environment__docker-compose_yaml": "services: {}"}, "only one container"),
        ({"instruction_md": " \n"}, "instruction.md is empty"),
        ({"instruction_md": None}, "instruction.md cannot be read"),
        ({"tests__test_sh": None}, "there is no tests/test.sh"),
        ({"tests__data_txt": "x" * (701 << 10)}, "tests/ has more than 700 KiB"),
        ({"solution__other_sh": ""}, "there is no solution/solve.sh"),
    ],
)
def test_what_is_wrong_with_a_folder_is_said_in_a_sentence(
    changes: dict[str, str | None], sentence: str, tmp_path: Path
) -> None:
    task(tmp_path / "task", **changes)
    with pytest.raises(InputError, match=r"^task: ") as error:
        samples(tmp_path)
    assert sentence in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_all_problems_of_all_folders_are_said_at_once_and_links_lead_nowhere(tmp_path: Path) -> None:
    task(tmp_path / "one", task_toml=None, tests__test_sh=None)
    (task(tmp_path / "two") / "tests" / "secret").symlink_to("/etc/passwd")
    task(tmp_path / "Three Tasks")
    with pytest.raises(InputError) as error:
        samples(tmp_path)
    said = str(error.value).splitlines()
    assert sum(line.startswith("one: ") for line in said) >= 2
    assert "two: tests/secret is a link: put a copy there" in said
    assert any(line.startswith("Three Tasks: 'harbor-three tasks' cannot name an image") for line in said)


def test_links_and_files_that_are_no_text_are_refused_in_a_sentence_each(tmp_path: Path) -> None:
    outside = task(tmp_path / "outside" / "task")
    folders = tmp_path / "tasks"
    for name in ("tests", "environment"):
        shutil.rmtree(task(folders / name) / name)
        (folders / name / name).symlink_to(outside / name)
    (task(folders / "instruction", instruction_md=None) / "instruction.md").symlink_to("/etc/passwd")
    os.mkfifo(task(folders / "pipe", instruction_md=None) / "instruction.md")
    for number in range(20):
        (task(folders / "many") / "tests" / f"link{number:02}").symlink_to("/etc/passwd")
    (task(folders / "bytes") / "instruction.md").write_bytes(b"\xff\xfe")
    (task(folders / "config") / "task.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError) as error:
        samples(folders)
    assert str(error.value).splitlines() == [
        "bytes: instruction.md cannot be read: it is not UTF-8 text (byte 0)",
        "config: task.toml cannot be read: it is not UTF-8 text (byte 0)",
        "environment: environment is a link: put a copy there",
        "instruction: instruction.md is a link: put a copy there",
        "many: tests/link00 and 19 more are links: put copies there",
        "pipe: instruction.md is not a file",
        "tests: tests is a link: put a copy there",
    ]


def test_a_file_in_place_of_a_folder_is_refused_without_numbers_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be read: Not a directory\.$"):
        samples(task(tmp_path / "task") / "task.toml")


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({}, "needs params.path"),
        ({"path": "missing"}, "cannot be read"),
        ({"path": "."}, "holds no task folder"),
        ({"path": ".", "artifacts": "/app"}, "is a list of paths"),
        ({"path": ".", "artefacts": []}, "no parameter 'artefacts'"),
    ],
)
def test_wrong_parameters_are_refused(params: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=sentence.replace(".", r"\.")):
        HarborLoader(params, tmp_path)
