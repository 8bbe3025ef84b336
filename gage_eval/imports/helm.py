"""Scenario states of HELM (``scenario_state.json``), with the instances' numbers next to them."""

from pathlib import Path
from typing import Any

from gage_eval.base.errors import InputError
from gage_eval.imports.contract import ImportedAnswer, ImportedLog, messages_of
from gage_eval.imports.values import document, mapping, number, sequence, text

# Numbers about the request, not about how good its answer is.
_FACTS = {"batch_size", "prompt_truncated", "max_prob", "logprob", "inference_runtime", "training_co2_cost"}
_FACTS |= {"training_energy_cost"}


def read_helm(path: Path) -> ImportedLog:
    """Read a scenario state. A further train trial is a replicate, a further completion is not imported.

    Raises:
        InputError: a file cannot be read, or the state asks one request for each option.
    """
    tree = mapping(document(path))
    adapter = mapping(tree.get("adapter_spec"))
    log = ImportedLog("helm", None, path.parent.name or "helm", text(adapter.get("model")))
    spec = _beside(path, "run_spec.json", log)
    # The model stands among the settings, and runs are compared by their task.
    scenario, _, settings = (text(mapping(spec).get("name")) or log.task).partition(":")
    kept = ",".join(part for part in settings.split(",") if not part.startswith("model="))
    log.task = f"{scenario}:{kept}" if kept else scenario
    numbers = _numbers(_beside(path, "per_instance_stats.json", log))
    for place, state in enumerate(sequence(tree.get("request_states")), 1):
        where = f"request {place} of '{path.name}'"
        if not isinstance(state, dict) or not text(mapping(state.get("instance")).get("id")):
            raise InputError(f"{where} has no instance with an id.")
        if state.get("reference_index") is not None:
            method = text(adapter.get("method")) or "one request for each option"
            raise InputError(f"'{path.name}' has no answers: the method '{method}' asks for likelihoods of options.")
        log.answers.append(_answer(state, numbers, log, where))
    return log


def _beside(path: Path, name: str, log: ImportedLog) -> Any:
    file = path.with_name(name)
    if not file.is_file():
        return None
    log.other_files.append(file)
    return document(file)


def _key(instance_id: Any, perturbation: Any, trial: Any) -> tuple[str, str, int]:
    trial = trial if isinstance(trial, int) else 0
    return text(instance_id) or "", text(mapping(perturbation).get("name")) or "", trial


def _numbers(tree: Any) -> dict[tuple[str, str, int], dict[str, float]]:
    numbers: dict[tuple[str, str, int], dict[str, float]] = {}
    for entry in map(mapping, sequence(tree)):
        key = _key(entry.get("instance_id"), entry.get("perturbation"), entry.get("train_trial_index"))
        own = numbers.setdefault(key, {})
        for stat in map(mapping, sequence(entry.get("stats"))):
            name, value = text(mapping(stat.get("name")).get("name")), number(stat.get("mean"))
            if name and value is not None and name not in _FACTS and not name.startswith(("num_", "finish_reason_")):
                own[name] = value
    return numbers


def _answer(
    state: dict[str, Any], numbers: dict[tuple[str, str, int], dict[str, float]], log: ImportedLog, where: str
) -> ImportedAnswer:
    instance, request, result = (mapping(state.get(name)) for name in ("instance", "request", "result"))
    perturbation = mapping(instance.get("perturbation"))
    key = _key(instance["id"], perturbation, state.get("train_trial_index"))
    if not 0 <= key[2] <= 10_000:
        raise InputError(f"{where}: train_trial_index {key[2]!r} is not a number from 0.")
    completions = sequence(result.get("completions"))
    reply = text(mapping(completions[0]).get("text")) if completions and result.get("success") is not False else None
    if len(completions) > 1:
        log.leave("further completions")
    references = [mapping(reference) for reference in sequence(instance.get("references"))]
    correct = [mapping(x.get("output")).get("text") for x in references if "correct" in sequence(x.get("tags"))]
    options = {str(letter): str(value) for letter, value in mapping(state.get("output_mapping")).items()}
    letters = [letter for letter, value in options.items() if value in correct]
    return ImportedAnswer(
        key[0] + (f"+{key[1]}" if key[1] else ""),
        key[2],
        messages_of(request.get("messages") or request.get("prompt"), log),
        reply,
        numbers.get(key, {}),
        # The model is asked for a letter.
        letters or [value for value in correct if isinstance(value, str)],
        error=text(result.get("error")),
        metadata={"split": text(instance.get("split")), **({"options": options} if options else {})},
    )
