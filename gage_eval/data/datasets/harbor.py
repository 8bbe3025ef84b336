"""Task folders of Harbor: an instruction, an image, tests, and a solution."""

import base64
import math
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from gage_eval.base.canonical import JsonValue, digest
from gage_eval.base.errors import InputError, visible
from gage_eval.base.field_paths import walk
from gage_eval.base.files import local_path
from gage_eval.base.hashing import file_digest
from gage_eval.data.datasets.base import Record, check_params, record_text
from gage_eval.data.datasets.reading import why
from gage_eval.extend import registry

T = TypeVar("T")
_PARAMS = ("artifacts",)
# Of the files of a script together; twice as many characters are the longest program that is run.
_LARGEST_KB = 700
_IMAGE = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*")
_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# What the tests or Harbor itself own in the box.
_OWNED = ("/tests", "/solution", "/logs/verifier")
_PUBLISHED = "/logs/artifacts"
_PREPARE = f"mkdir -p /logs/agent /logs/verifier {_PUBLISHED}"
_TABLES = ("metadata", "environment", "agent", "verifier", "solution")
# Keys of task.toml that change what a task is, and that boxes lack here.
_UNSUPPORTED = (
    *("steps", "environment.mcp_servers", "environment.skills_dir", "environment.healthcheck", "environment.workdir"),
    *("environment.gpus", "environment.tpu", "verifier.environment", "verifier.collect"),
)
# Limits of task.toml, by the names that a sample has for them.
_LIMITS = {"environment.memory_mb": "memory_mb", "agent.timeout_sec": "agent_s", "verifier.timeout_sec": "tests_s"}
_CPUS = "environment.cpus"
# Of the tasks that a note is about.
_NAMED = 3
# Prints the reward without white space, and ends with 0 where it is 1.
_REWARD = """
for file in /logs/verifier/reward.json /logs/verifier/reward.txt; do
    if [ -f "$file" ]; then
        set -f
        reward=$(printf %s $(cat "$file"))
        printf '%s\\n' "$reward"
        case $reward in
            1 | 1.0 | 1.00 | *'"reward":1'[,}]* | *'"reward":1.0'[,}]*) exit 0 ;;
            *) echo "reward $reward" >&2; exit 1 ;;
        esac
    fi
done
cat /logs/verifier/test-stdout.txt >&2
echo "the tests wrote no reward" >&2
exit 1
"""


@registry.loaders.register("harbor", version=2, params=_PARAMS)
class HarborLoader:
    """Task folders of Harbor as samples, each with `task.toml`, `instruction.md`, `tests/test.sh`, and `solution/`.

    The image is `environment.docker_image`, else `harbor-FOLDER`, which is built from `environment/`. A sample names it
    in ``metadata.execution``, with the files to take; ``metadata.tests`` and ``metadata.solution`` are shell scripts.

    Parameters (``params``):
        path: a task folder, or a folder of task folders.
        artifacts: what is taken from the box of a task that declares no artifacts, as `[/app]`.

    Raises:
        InputError: a parameter is missing or wrong; or a task is wrong, or is of a kind that cannot be run here. All
            problems at once.
    """

    def __init__(self, params: Mapping[str, Any], base_dir: Path) -> None:
        check_params(params, ("path", *_PARAMS), "harbor")
        path, self._artifacts = params.get("path"), params.get("artifacts")
        if not isinstance(path, str) or not path:
            raise InputError("loader harbor needs params.path, a folder of task folders.")
        if not isinstance(self._artifacts or [], list):
            raise InputError("loader harbor: artifacts is a list of paths, as [/app].")
        folder = local_path(path, base_dir)
        try:
            self._folders = [folder] if (folder / "task.toml").is_file() else sorted(filter(_is_task, folder.iterdir()))
        except OSError as error:
            raise InputError(f"'{path}' cannot be read: {why(error)}.") from error
        if not self._folders:
            raise InputError(f"'{path}' holds no task folder, which has an instruction.md and a task.toml.")

    def identity(self) -> JsonValue:
        """Digest of the samples, which hold all that is read of the folders."""
        return {"tasks": digest(self._samples)}

    def records(self) -> Iterator[Record]:
        """(position from 1, sample) of each task folder, by name."""
        for position, sample in enumerate(self._samples, 1):
            yield position, record_text(sample)

    @property
    def notes(self) -> list[str]:
        """What tasks ask for and no box gives."""
        wanting = [visible(task.folder.name) for task in self._tasks if task.wants_processors]
        said = f"{len(wanting):,} of {len(self._tasks):,} tasks set cpus, and a box always has one processor"
        return [f"{said}: {', '.join(wanting[:_NAMED])}{', …' if len(wanting) > _NAMED else ''}."] if wanting else []

    @cached_property
    def _tasks(self) -> list["_Task"]:
        return [_Task(folder, self._artifacts) for folder in self._folders]

    @cached_property
    def _samples(self) -> list[dict[str, JsonValue]]:
        samples = [task.sample() for task in self._tasks]
        if problems := [f"{task.folder.name}: {problem}" for task in self._tasks for problem in task.problems]:
            raise InputError("\n".join(map(visible, problems)))
        return samples


def _is_task(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("task.toml", "instruction.md"))


class _Task:
    """One task folder.

    Attributes:
        problems: sentences on what is wrong, known when `sample` was made.
    """

    def __init__(self, folder: Path, artifacts: list[Any] | None) -> None:
        self.folder, self.problems = folder, list[str]()
        self._default_artifacts = artifacts or []
        self._config = self._read_config()

    def sample(self) -> dict[str, JsonValue]:
        """The sample; without meaning where there are problems."""
        self.problems += [f"{key} is not supported here" for key in _UNSUPPORTED if self._at(key)]
        if str(self._at("environment.os") or "linux").lower() != "linux":
            self.problems.append("environment.os: only linux can be run here")
        for key in ("agent.user", "verifier.user"):
            if self._at(key) not in (None, "root", 0, "0"):
                self.problems.append(f"{key}: only root can be had here")
        script, solution = self._script("tests", "test.sh", "verifier.env"), None
        if (self.folder / "solution").is_dir():
            solution = self._script("solution", "solve.sh", "solution.env")
        files = self._files("environment")
        if "docker-compose.yaml" in (files or ()):
            self.problems.append("environment/docker-compose.yaml: only one container can be run here")
        labels = {name: self._at(f"metadata.{name}") for name in ("category", "difficulty")}
        return {
            "id": self.folder.resolve().name,
            "messages": [{"role": "user", "content": self._instruction()}],
            "references": [],
            "metadata": {
                "execution": {
                    "image": self._image(files),
                    "writable": True,
                    "setup": _PREPARE,
                    "env": self._variables("environment.env"),
                    **({"limits": limits} if (limits := self._limits()) else {}),
                    "artifacts": self._artifact_paths(),
                },
                "tests": f"{script}\n{_REWARD}",
                **({} if solution is None else {"solution": solution}),
                "environment": self._contents(files or {}, file_digest),
            },
            "data_tag": {name: label for name, label in labels.items() if isinstance(label, str)},
        }

    def _read_config(self) -> dict[str, Any]:
        if not (self.folder / "task.toml").exists():
            self.problems.append("there is no task.toml")
            return {}
        try:
            config = tomllib.loads(self._text("task.toml"))
        except (ValueError, RecursionError) as error:
            reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error).rstrip(".")
            self.problems.append(f"task.toml cannot be read: {reason}")
            return {}
        self.problems += [f"{name} is not a table" for name in _TABLES if not isinstance(config.get(name, {}), dict)]
        return config

    def _at(self, key: str) -> Any:
        """The value of a key; None where it is missing."""
        return walk(self._config, key, None)

    def _limits(self) -> dict[str, JsonValue]:
        """What the task bounds itself, by the names of a sample's limits."""
        for key in (*_LIMITS, _CPUS):
            most = self._at(key)
            is_number = isinstance(most, int | float) and not isinstance(most, bool) and 0 < most < math.inf
            if most is not None and not is_number:
                self.problems.append(f"{key} is not a number above 0")
        return {name: most for key, name in _LIMITS.items() if (most := self._at(key)) is not None}

    @property
    def wants_processors(self) -> bool:
        """Whether the task asks for another number of processors than the one that a box has."""
        return self._at(_CPUS) not in (None, 1)

    def _text(self, name: str) -> str:
        """The text of a file; empty where there is a problem."""
        file = self.folder / name
        if file.is_symlink():
            self.problems.append(f"{name} is a link: put a copy there")
        elif file.exists() and not file.is_file():
            self.problems.append(f"{name} is not a file")
        else:
            try:
                return file.read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                self.problems.append(f"{name} cannot be read: {why(error)}")
        return ""

    def _instruction(self) -> str:
        problems = len(self.problems)
        text = self._text("instruction.md").strip()
        if not text and problems == len(self.problems):
            self.problems.append("instruction.md is empty")
        return text

    def _image(self, files: Mapping[str, Path] | None) -> str:
        image = self._at("environment.docker_image")
        if image is not None:
            if not isinstance(image, str) or not image:
                self.problems.append("environment.docker_image is not the name of an image")
            return str(image)
        name = f"harbor-{self.folder.resolve().name.lower()}"
        if files is not None and "Dockerfile" not in files:
            self.problems.append("there is neither environment.docker_image nor environment/Dockerfile")
        elif not _IMAGE.fullmatch(name):
            self.problems.append(f"'{name}' cannot name an image: rename the folder, with letters, digits and -")
        return name

    def _artifact_paths(self) -> list[JsonValue]:
        """What is taken from the box, without the leading slash."""
        own = self._at("artifacts") or self._default_artifacts
        if not isinstance(own, list):
            self.problems.append("artifacts is not a list")
            return []
        declared = [entry.get("source") if isinstance(entry, dict) else entry for entry in own]
        if any(isinstance(entry, dict) and entry.get("service") for entry in own):
            self.problems.append("artifacts: only one container can be run here")
        paths = []
        for path in [_PUBLISHED, *declared]:
            pure = PurePosixPath(path) if isinstance(path, str) else PurePosixPath()
            if not pure.is_absolute() or ".." in pure.parts or "\0" in str(pure) or len(pure.parts) == 1:
                self.problems.append(f"artifacts: {path!r} is not an absolute path of the box")
            elif any(pure.is_relative_to(own) or PurePosixPath(own).is_relative_to(pure) for own in _OWNED):
                self.problems.append(f"artifacts: {path!r} belongs to the tests")
            else:
                paths.append(str(pure).lstrip("/"))
        misplaced = [key for name in _TABLES if self._at(key := f"{name}.artifacts")]
        if misplaced and not self._at("artifacts"):
            self.problems.append(f"{misplaced[0]} is not read: put artifacts above the first table of task.toml")
        elif self._config and not declared:
            self.problems.append(
                "task.toml declares no artifacts, and the tests see nothing else of the agent's: add artifacts = "
                '["/app"], or set params.artifacts'
            )
        return list(dict.fromkeys(paths))

    def _variables(self, key: str) -> dict[str, JsonValue]:
        variables = self._at(key) or {}
        if not isinstance(variables, dict):
            self.problems.append(f"{key} is not a table")
            return {}
        for name, value in variables.items():
            if not _VARIABLE.fullmatch(name) or not isinstance(value, str) or "\0" in value:
                self.problems.append(f"{key}.{name} is not a variable with a text")
            elif "${" in value:
                self.problems.append(f"{key}.{name} names a variable of this machine, which no box gets")
        return {name: str(value) for name, value in variables.items()}

    def _files(self, name: str) -> dict[str, Path] | None:
        """The files of a folder by their path in it; None if the folder is a link."""
        folder = self.folder / name
        if folder.is_symlink():
            self.problems.append(f"{name} is a link: put a copy there")
            return None
        paths = sorted(folder.rglob("*"))
        if links := [path.relative_to(self.folder).as_posix() for path in paths if path.is_symlink()]:
            others = f" and {len(links) - 1:,} more are links: put copies" if links[1:] else " is a link: put a copy"
            self.problems.append(f"{links[0]}{others} there")
        return {path.relative_to(folder).as_posix(): path for path in paths if path.is_file() and not path.is_symlink()}

    def _contents(self, files: Mapping[str, Path], read: Callable[[Path], T]) -> dict[str, T]:
        """What is read of each file that can be read."""
        contents = {}
        for name, path in files.items():
            try:
                contents[name] = read(path)
            except OSError as error:
                self.problems.append(f"{path.relative_to(self.folder)} cannot be read: {why(error)}")
        return contents

    def _script(self, folder: str, first: str, env: str) -> str:
        """A shell script that writes the files of a folder to that folder of the box, and runs the first one."""
        files = self._files(folder)
        if files is None:
            return ""
        if first not in files:
            self.problems.append(f"there is no {folder}/{first}")
        if sum(path.stat().st_size for path in files.values()) > _LARGEST_KB << 10:
            self.problems.append(f"{folder}/ has more than {_LARGEST_KB} KiB: put large files into the image")
            return ""
        lines = [
            _PREPARE,
            'put() { mkdir -p "${1%/*}" && base64 -d > "$1" && chmod "$2" "$1" || exit; }',
            "rm -f /logs/verifier/reward.json /logs/verifier/reward.txt",
        ]
        for path, content in self._contents(files, Path.read_bytes).items():
            mode = 755 if path == first or files[path].stat().st_mode & 0o100 else 644
            lines += [f"put {shlex.quote(f'/{folder}/{path}')} {mode} <<'END'", _wrapped(content), "END"]
        for name, value in self._variables(env).items():
            lines.append(f"export {name}={shlex.quote(str(value))}")
        log = "/logs/verifier/test-stdout.txt" if folder == "tests" else "/logs/agent/oracle.txt"
        return "\n".join([*lines, f"/{folder}/{first} < /dev/null > {log} 2>&1"])


def _wrapped(content: bytes) -> str:
    return base64.encodebytes(content).decode().rstrip("\n")
