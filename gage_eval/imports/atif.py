"""Trajectories of agents in ATIF: one file, JSON Lines of them, or a job's folder of Harbor with one for each trial."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gage_eval.base.errors import InputError
from gage_eval.imports.contract import ImportedAnswer, ImportedLog, content_of, messages_of, scores_of
from gage_eval.imports.values import document, mapping, rows_of, sequence, text

_VERSION = re.compile(r"ATIF-v1\.\d+\Z")
_FILE = "agent/trajectory.json"
_ROLES = {"system": "system", "agent": "assistant"}


def trajectories_of(folder: Path) -> list[Path]:
    """The trajectories of a job's trials, which lie in the folder, or in the only one of its folders that has trials.

    Raises:
        InputError: several of its folders have trials, or a file lies outside of the folder, by a link.
    """
    files = sorted(folder.glob(f"*/{_FILE}")) or sorted(folder.glob(f"*/*/{_FILE}"))
    if len(jobs := sorted({_job_of(file) for file in files})) > 1:
        named = ", ".join(f"'{job}'" for job in jobs[:5])
        raise InputError(f"'{folder}' has trials in {len(jobs):,} folders, and an import is of one of them: {named}.")
    for file in files:
        if not file.resolve().is_relative_to(folder.resolve()):
            raise InputError(f"'{file}' leads out of '{folder.name}' by a link.")
    return files


def _job_of(trajectory: Path) -> Path:
    return trajectory.parents[2]


def read_atif(path: Path) -> ImportedLog:
    """Read trajectories. The answer is the agent's last message; trials of one task are replicates.

    Raises:
        InputError: a file cannot be read, or holds something else than a trajectory of ATIF 1.
    """
    job = _job_of(trajectories_of(path)[0]).resolve() if path.is_dir() else path
    log = ImportedLog("atif", None, job.name.split(".")[0] or "atif")
    agents = set[str]()
    for where, tree, trial in _trajectories(path, log):
        version = text(tree.get("schema_version")) or ""
        if not version:
            raise InputError(f"{where} has no 'schema_version', as trajectories of ATIF have.")
        if _VERSION.match(version) is None:
            raise InputError(f"{where} is of version '{version}'; trajectories of ATIF-v1 are read.")
        agent = mapping(tree.get("agent"))
        log.models.add(text(agent.get("model_name")))
        agents |= {" ".join(filter(None, (text(agent.get("name")), text(agent.get("version")))))} - {""}
        sample_id = text(trial.get("task_name")) or text(tree.get("session_id")) or text(tree.get("trajectory_id"))
        if not sample_id:
            raise InputError(f"{where} has no 'session_id' and no 'trajectory_id'.")
        log.answers.append(_answer(tree, trial, sample_id, log))
    if len(agents) > 1:
        named = ", ".join(sorted(agents)[:5])
        raise InputError(f"'{path.name}' has trajectories of several agents ({named}); split it by agent.")
    log.version = next(iter(agents), None)
    return log


def _trajectories(path: Path, log: ImportedLog) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(place, trajectory, the trial's result) of each."""
    if path.is_dir():
        for file in trajectories_of(path):
            result = file.parents[1] / "result.json"
            trial = {}
            if result.is_file() and not result.is_symlink():
                log.other_files.append(result)
                trial = mapping(document(result))
            yield f"'{file.relative_to(path)}' of '{path.name}'", mapping(document(file)), trial
    elif ".json" in path.suffixes:
        yield f"'{path.name}'", mapping(document(path)), {}
    else:
        for where, row in rows_of(path):
            yield where, row, {}


def _answer(tree: dict[str, Any], trial: dict[str, Any], sample_id: str, log: ImportedLog) -> ImportedAnswer:
    steps = [mapping(step) for step in sequence(tree.get("steps"))]
    own = (
        place for place, step in enumerate(steps) if step.get("source") == "agent" and not step.get("is_copied_context")
    )
    first = next(own, len(steps))
    before = [
        {"role": _ROLES.get(str(step.get("source")), "user"), "content": step.get("message")} for step in steps[:first]
    ]
    said = [content_of(step.get("message"), log) for step in steps[first:] if step.get("source") == "agent"]
    reply = next((message for message in reversed(said) if message.strip()), None)
    if len(steps) > first + 1:
        log.leave("steps before the last answer")
    if tree.get("subagent_trajectories"):
        log.leave("subagent_trajectories")
    # A reward of null is a trial without a verdict, not one that failed.
    scores = scores_of(mapping(trial.get("verifier_result")).get("rewards"), log, "rewards")
    failure = mapping(trial.get("exception_info"))
    error = text(failure.get("exception_message")) or text(failure.get("exception_type"))
    return ImportedAnswer(
        sample_id,
        log.next_replicate(sample_id),
        messages_of(before, log),
        # An agent that only called tools said nothing, and may have been rewarded for what it did.
        None if error and not scores else "" if scores and reply is None else reply,
        scores,
        error=error,
        metadata={"steps": len(steps)},
    )
