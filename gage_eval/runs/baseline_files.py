"""Where baselines lie in a store, and the scores that their newest entries name.

<store>/baselines/suite_<suite>/<name>/000001.json, 000002.json, …
"""

import re
from urllib.parse import quote, unquote

from gage_eval.base.canonical import decode
from gage_eval.base.errors import InputError
from gage_eval.runs.names import is_name
from gage_eval.store import Store

FOLDER = "baselines"
DIGITS = 6
_SUITE = "suite_"
# The file of an entry: other files may lie there too.
ENTRY = re.compile(rf"{FOLDER}/({_SUITE}[^/]+)/([^/]+)/\d{{{DIGITS}}}\.json")


def folder_of(suite: str) -> str:
    """The folder of a suite's baselines: its name without characters that lead to another folder."""
    quoted = quote(suite, safe="").replace(".", "%2E").replace("~", "%7E")
    return f"{FOLDER}/{_SUITE}{quoted.replace('%', '=')}"


def suite_of(folder: str) -> str:
    """The suite that a folder below `FOLDER` belongs to."""
    return unquote(folder.removeprefix(_SUITE).replace("=", "%"))


def entries_of(store: Store, suite: str, name: str) -> list[str]:
    """The files of a baseline's entries, the oldest first; none where there is no such baseline."""
    there = store.objects.list(f"{folder_of(suite)}/{name}") if is_name(name) else ()
    return sorted(item.path for item in there if ENTRY.fullmatch(item.path))


def baseline_scores(store: Store, suite: str, name: str, task_id: str, metric_id: str) -> tuple[str, ...]:
    """The artifact with a metric's scores in each repeat of a baseline's newest entry.

    Raises:
        InputError: there is no such baseline, or it has no such scores.
    """
    entries = entries_of(store, suite, name)
    if not entries:
        raise InputError(f"'{suite}' has no baseline '{name}'. To make one of a run: gage baseline set {name} RUN")
    try:
        runs = decode(store.objects.get(entries[-1]))["runs"]
        return tuple(str(run["tasks"][task_id]["scores"][metric_id]) for run in runs)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"baseline '{name}' of '{suite}' has no scores of metric '{metric_id}' of task '{task_id}'."
        ) from error
