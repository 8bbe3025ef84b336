"""tests/keys/golden_configs.json: digests of what determines the keys of every shipped config.

python -m tools.golden_keys DATA    write the file; DATA is the folder that the pipelines call LOCAL_DATASETS_ROOT

A changed digest means that all users of the config compute this stage again. Note it in the changelog.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from gage_eval.base.canonical import digest
from gage_eval.base.errors import GageError
from gage_eval.base.stages import STAGES
from gage_eval.pipeline.keys import VERSIONS
from gage_eval.runs.options import RunOptions
from gage_eval.runs.planned import planned

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "tests" / "keys" / "golden_configs.json"


def shipped() -> Iterator[tuple[str, str]]:
    """(name, what to run) of every shipped config."""
    for file in sorted((ROOT / "configs" / "pipelines").rglob("*.yaml")):
        yield file.relative_to(ROOT / "configs").as_posix(), str(file)
    # The other suites name no model; the digests of their templates are golden.
    yield "suite:demo", "suite:demo"


def keys_of(config: str) -> dict[str, str]:
    """Digest of version and material of each stage of each task.

    Raises:
        GageError: the config's data or model is not on this machine.
    """
    digests = {}
    for task in planned(RunOptions(config=config), read_only=True).plan.tasks:
        for stage in STAGES:
            spec = getattr(task, stage)
            if spec is not None:
                document = {"version": VERSIONS[stage], "spec": spec.material()}
                digests[f"{task.task_id}/{stage}"] = digest(document)
    return digests


def main(arguments: list[str]) -> int:
    """Write the file."""
    import os

    os.environ["LOCAL_DATASETS_ROOT"] = str(Path(arguments[0]).resolve())
    golden: dict[str, Mapping[str, str]] = {}
    for name, config in shipped():
        try:
            golden[name] = keys_of(config)
        except GageError as error:
            sys.stderr.write(f"{name}: {error}\n")
            return 1
    FILE.write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
