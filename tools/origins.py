"""configs/origins/: repository, commit, licence and files of the public data that suites use.

python -m tools.origins ORIGINS.json    write one file per origin from such a list
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "configs" / "origins"
# Licences that forbid commercial use say so in these letters.
_NON_COMMERCIAL = "-NC"


def text_of(name: str, origin: Mapping[str, Any]) -> str:
    """The YAML of one origin."""
    head = {
        "repository": origin["repository"],
        "commit": origin["commit"],
        "licence": origin["licence"],
        "non_commercial": _NON_COMMERCIAL in origin["licence"],
    }
    lines = [f"# Written by python -m tools.origins: the data of '{name}' at one commit of its public repository."]
    lines += yaml.safe_dump(head, sort_keys=False, width=1000).splitlines()
    lines.append("files:")
    for path, file in sorted(origin["files"].items()):
        if not path.endswith("README.md"):
            lines.append(f"  {json.dumps(path)}: {{bytes: {file['bytes']}, sha256: {file['sha256']}}}")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Write the files."""
    origins = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    FOLDER.mkdir(exist_ok=True)
    for name, origin in origins.items():
        (FOLDER / f"{name}.yaml").write_text(text_of(name, origin), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
