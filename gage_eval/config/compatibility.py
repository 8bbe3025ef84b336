"""Checks whether the parts of a config fit together: adapters and backends, prompts, examples, folders."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from gage_eval.base.canonical import canonical_text
from gage_eval.base.errors import InputError, closest
from gage_eval.base.field_paths import compile_path
from gage_eval.base.files import is_folder, local_path
from gage_eval.config.judging_fit import built, check_judging
from gage_eval.config.models import BackendEntry, ExecutionConfig, PipelineConfig, PromptConfig, RoleAdapterConfig
from gage_eval.config.problems import ConfigProblem, Loc
from gage_eval.config.resolve import Resolution, ResolvedRole, ResolvedTask
from gage_eval.engine.episodes import kind_of_calls
from gage_eval.extend import registry
from gage_eval.extend.loading import without_folders
from gage_eval.models.backends.base import BackendContext
from gage_eval.scoring.metrics import BoundMetric
from gage_eval.scoring.metrics.pipelines import read_steps

# Value of role_adapters[].capabilities → capability of a backend.
_CAPABILITIES: Mapping[str, str] = {
    **{name: name for name in ("chat", "completion", "likelihood", "chat_likelihood", "tools", "images")},
    "chat_completion": "chat",
    "text_completion": "completion",
    "loglikelihood": "likelihood",
    "vision_chat": "images",
    "vision": "images",
    "tool_calls": "tools",
    "function_calling": "tools",
}

# Variables of a prompt that hold what is judged.
_JUDGED = frozenset({"model_answer", "payload", "pair"})

# Fields that a response to a likelihood request does not have.
_ANSWERS = frozenset({"answer", "parsed", "tool_calls", "reasoning"})


def check_fit(
    config: PipelineConfig,
    resolved: Resolution,
    metrics: Mapping[str, Sequence[BoundMetric]],
    context: BackendContext,
) -> Iterator[ConfigProblem]:
    """Find what does not fit together.

    Args:
        config: a valid config.
        resolved: its cross-references, as far as they can be resolved.
        metrics: the metrics of each task, by task id.
        context: what backends are built with. Its folder is the base of relative paths in the config.
    """
    base_dir = context.base_dir
    for index, dataset in enumerate(config.datasets):
        root = dataset.params.content_root
        if root is not None and dataset.params.origin is None and not is_folder(root, base_dir):
            yield ConfigProblem(("datasets", index, "params", "content_root"), f"there is no folder '{root}'.")
    yield from _prompts(config)
    yield from _exports(config)
    for index, adapter in enumerate(config.role_adapters):
        loc: Loc = ("role_adapters", index)
        role = resolved.roles.get(adapter.adapter_id)
        if role is not None:
            yield from _capabilities((*loc, "capabilities"), adapter, role.backend, context)
            yield from _verdict((*loc, "verdict"), adapter, role.backend, context)
        for path, file in {} if adapter.agent is None else adapter.agent.files.items():
            if not local_path(file, base_dir).is_file():
                yield ConfigProblem((*loc, "agent", "files", path), f"there is no file '{file}'.")
        if adapter.class_path is not None:
            yield from _class_path((*loc, "class_path"), adapter.class_path)
    # A judge that refers to something unknown is one problem, not another one for each metric that reads its verdicts.
    broken_judge = any(
        adapter.role_type == "judge_model" and resolved.roles.get(adapter.adapter_id) is None
        for adapter in config.role_adapters
    )
    for at, task in resolved.tasks.items():
        unanswerable = list(_mode(("tasks", at, "mode"), task, context))
        yield from unanswerable or _metrics(
            ("tasks", at), task, metrics.get(task.task.task_id, ()), judged=task.judge is not None or broken_judge
        )
        number = next(
            index for index, dataset in enumerate(config.datasets) if dataset.dataset_id == task.task.dataset_id
        )
        yield from _positions(("tasks", at), ("datasets", number, "params"), task, context)
        yield from _orders(("tasks", at), task)
        yield from _blind_judges(("tasks", at), task, context)
        yield from check_judging(("tasks", at), task, metrics.get(task.task.task_id, ()), context)
        if task.task.execution is not None:
            yield from _execution(("tasks", at, "execution"), task, task.task.execution, base_dir)
        if task.task.few_shot is not None:
            yield from _examples(("tasks", at, "few_shot"), task)


def _execution(loc: Loc, task: ResolvedTask, execution: ExecutionConfig, base_dir: Path) -> Iterator[ConfigProblem]:
    """Filters that do not exist, or do not fit; a check without what it checks."""
    if execution.check is not None and not local_path(execution.check, base_dir).is_file():
        yield ConfigProblem((*loc, "check"), f"there is no file '{execution.check}'.")
    if execution.mode == "final_state":
        adapter = task.dut.adapter
        artifacts = [] if adapter.box is None else adapter.box.artifacts
        if not artifacts:
            said = f"a final state is what role adapter '{adapter.adapter_id}' declares: set its box.artifacts."
            yield ConfigProblem((*loc, "mode"), said)
        if any(PurePosixPath(path).parts[:1] == (execution.file,) for path in artifacts):
            said = f"'{execution.file}' is also a path of box.artifacts: give the check another name."
            yield ConfigProblem((*loc, "file"), said)
    try:
        read_steps(execution.filters)
    except InputError as error:
        yield ConfigProblem((*loc, "filters"), str(error), error)


def _exports(config: PipelineConfig) -> Iterator[ConfigProblem]:
    """Canonical answers without a task that has an answer type: the file would be empty."""
    if "canonical_answers" in config.export and not any(task.answer_type for task in config.tasks):
        yield ConfigProblem(
            ("export", config.export.index("canonical_answers")),
            "no task has an answer type, so there are no canonical answers. Set answer_type in a task, or remove it.",
        )


def _prompts(config: PipelineConfig) -> Iterator[ConfigProblem]:
    """Templates with wrong syntax, or with a misspelt variable."""
    from gage_eval.data.prompts import PromptRenderer, misspelt_variables

    for index, prompt in enumerate(config.prompts):
        messages = prompt.template
        template = messages if isinstance(messages, str) else [message.model_dump() for message in messages]
        try:
            PromptRenderer(template, prompt.params, prompt.system_prompt, prompt_id=prompt.prompt_id)
        except InputError as error:
            yield ConfigProblem(("prompts", index), str(error))
            continue
        for text in _texts(prompt):
            for name, meant in misspelt_variables(text).items():
                said = f"prompt '{prompt.prompt_id}': there is no variable '{name}'. Did you mean '{meant}'?"
                yield ConfigProblem(("prompts", index), said)


def _can(backend: BackendEntry, context: BackendContext) -> frozenset[str] | None:
    """The capabilities of a backend with its config; None if it does not declare them, or cannot be built."""
    return getattr(built(backend, context), "capabilities", None)


def _mode(loc: Loc, task: ResolvedTask, context: BackendContext) -> Iterator[ConfigProblem]:
    """A mode that the model's backend cannot answer."""
    backend, mode = task.dut.backend, task.task.mode
    has = _can(backend, context)
    if has is not None and kind_of_calls(mode) not in has:
        can = ", ".join(sorted(has))
        yield ConfigProblem(
            loc,
            f"backend '{backend.backend_id}' ({without_folders(backend.type)}) cannot answer {mode} requests. "
            f"It can: {can}.{_likelihood_hint(backend, mode)}",
        )


def _orders(loc: Loc, task: ResolvedTask) -> Iterator[ConfigProblem]:
    """Judges whose prompt shows no pair where there are pairs, or one order where there are both."""
    against, both = task.task.against, task.task.both_orders
    if against is not None and task.judge is None:
        yield ConfigProblem((*loc, "against"), "a judge compares pairs, and the task has none: add one.")
    for role in _asked_judges(task):
        judge = role.adapter.adapter_id
        shows_pair = role.prompt is not None and any("pair" in variables for variables in _variables(role.prompt))
        if shows_pair != (against is not None):
            remedy = "show pair.a.answer and pair.b.answer" if against is not None else "say against what, with against"
            shown = "shows a pair" if shows_pair else "shows no pair"
            yield ConfigProblem((*loc, "against"), f"the prompt of judge '{judge}' {shown}: {remedy}.")
        elif both and not shows_pair and (role.prompt is None or "swapped" not in role.prompt.model_dump_json()):
            yield ConfigProblem(
                (*loc, "both_orders"),
                f"the prompt of judge '{judge}' has one order: let it swap the answers where "
                "prompt_params.swapped is true.",
            )


def doubtful_judges(task: ResolvedTask) -> Iterator[str]:
    """What is allowed of a task's judges and probably not intended, one sentence each."""
    place = f"task '{task.task.task_id}'"
    for role in _asked_judges(task):
        judge = f"judge '{role.adapter.adapter_id}'"
        if role.prompt is None:
            yield f"{place}: {judge} has no prompt, so it is asked the question and sees no answer."
        elif not any(variables & _JUDGED for variables in _variables(role.prompt)):
            yield f"{place}: the prompt of {judge} never shows the answer; model_answer is its text."
        if (role.backend.type, role.backend.config) == (task.dut.backend.type, task.dut.backend.config):
            yield f"{place}: {judge} is the model under test, and models tend to prefer their own answers."


def _asked_judges(task: ResolvedTask) -> Iterator[ResolvedRole]:
    """The judges that a task itself names, but for those that render their own requests."""
    named = [*task.task.judges] or [task.judge.adapter.adapter_id if task.judge is not None else ""]
    named += [] if task.task.second_judge is None else [task.task.second_judge.adapter_id]
    for role in filter(None, (task.judge, *task.other_judges)):
        if role.adapter.adapter_id in named and role.adapter.class_path is None:
            yield role


def _variables(prompt: PromptConfig) -> Iterator[frozenset[str]]:
    """The variables of each of a prompt's texts; none of those whose syntax is wrong, which is reported elsewhere."""
    from jinja2.exceptions import TemplateError

    from gage_eval.data.prompts.sandbox import variables_of

    for text in _texts(prompt):
        with contextlib.suppress(TemplateError):
            yield variables_of(text)


def _texts(prompt: PromptConfig) -> tuple[str, ...]:
    messages = prompt.template
    texts = [messages] if isinstance(messages, str) else [message.content for message in messages or ()]
    return (*texts, prompt.system_prompt or "")


def _likelihood_hint(backend: BackendEntry, mode: str) -> str:
    if backend.type != "openai_http" or "likelihood" not in mode:
        return ""
    return " A vLLM server can: name it with type vllm (--engine vllm)."


def _metrics(loc: Loc, task: ResolvedTask, metrics: Sequence[BoundMetric], *, judged: bool) -> Iterator[ConfigProblem]:
    """Metrics that would score no row: those of verdicts without a judge, or of data that the mode does not give."""
    for metric in metrics:
        required = [
            path
            for path, field in zip(metric.field_paths, metric.definition.fields, strict=True)
            if field.required and metric.default is None
        ]
        name, mode = f"metric '{metric.metric_id}'", task.task.mode
        if not judged and any(path.input.name == "judgments" for path in required):
            yield ConfigProblem(
                loc, f"{name} reads a judge's verdicts, and the task has no judge. Add one, or remove it."
            )
        reads_one = any(path.input.name == "judgments" and not path.is_listed for path in required)
        if task.task.both_orders and reads_one:
            yield ConfigProblem(loc, f"{name} reads one verdict, and the task asks in both orders. Use pairwise_win.")
        elif (task.task.judges or task.task.judge_draws > 1) and reads_one:
            several = f"{len(task.task.judges)} judges" if task.task.judges else f"{task.task.judge_draws} judge_draws"
            yield ConfigProblem(
                loc, f"{name} reads one verdict, and the task has {several}. Use panel_score or panel_pass."
            )
        if task.task.execution is None and any(path.input.stage == "auto_eval" for path in required):
            yield ConfigProblem(loc, f"{name} reads how programs ended, and the task runs none. Add 'execution'.")
        if metric.implementation == "length_controlled_win":
            yield from _length_control(loc, task, metric)
        if not _answers_as_ours(task):
            continue
        asks_likelihoods = kind_of_calls(mode) in ("likelihood", "chat_likelihood")
        if metric.definition.plugin.info.get("of_likelihoods") and not asks_likelihoods:
            read = next((path.text for path in required if path.text == "model_output.logprobs"), None)
            if read is not None:
                yield ConfigProblem(
                    loc,
                    f"{name} compares log-likelihoods, which {mode} requests do not give. Set mode: likelihood, or "
                    "use a metric that reads the answer.",
                )
        elif asks_likelihoods and any(path.root == "model_output" and path.parts[0] in _ANSWERS for path in required):
            yield ConfigProblem(
                loc,
                f"{name} reads the answer's text, which {mode} requests do not give. Use a metric of "
                "log-likelihoods, such as acc, or set mode: chat.",
            )


def _length_control(loc: Loc, task: ResolvedTask, metric: BoundMetric) -> Iterator[ConfigProblem]:
    """A length-controlled win rate without a table of difficulties, or with the lengths of other answers."""
    name, against = f"metric '{metric.metric_id}'", task.task.against
    other, difficulty = (
        next(path for path, item in zip(metric.field_paths, metric.definition.fields, strict=True) if item.name == own)
        for own in ("other", "difficulty")
    )
    if "difficulty_field" not in (metric.recipe["params"] or {}) or difficulty.root != "sample":
        yield ConfigProblem(
            loc,
            f"{name} needs a table of the instructions' difficulty, and without one pairwise_win is nearer to the "
            "truth: name its field of the samples with difficulty_field, or use pairwise_win.",
        )
    if against is None or against.field is None or compile_path(against.field).canonical != other.canonical:
        yield ConfigProblem(
            loc,
            f"{name} reads the other answers in {other.text}, and the judge sees those of 'against': name the same "
            "field in both, with other_field.",
        )


def _answers_as_ours(task: ResolvedTask) -> bool:
    """Whether a built-in backend answers. The answers of other backends are unknown."""
    dut = task.dut
    plugin = registry.backends.loaded(dut.backend.type)
    ours = plugin is not None and plugin.is_builtin and plugin.name != "custom_script"
    return ours and dut.adapter.class_path is None


def _positions(at: Loc, dataset: Loc, task: ResolvedTask, context: BackendContext) -> Iterator[ConfigProblem]:
    """A selection or order of rows with a backend that matches its answers to rows by position."""
    params = task.dataset.params
    moved = [(*dataset, name) for name in ("filter", "sample") if getattr(params, name) is not None]
    if params.shuffle if task.task.shuffle is None else task.task.shuffle:
        moved.append((*(dataset if task.task.shuffle is None else at), "shuffle"))
    if not moved:
        return
    (*_, change) = loc = moved[0]
    for role in (task.dut, task.judge, task.support, task.user, *task.other_judges):
        if role is not None and getattr(built(role.backend, context), "matches_positions", False):
            yield ConfigProblem(
                loc,
                f"backend '{role.backend.backend_id}' matches rows by position (match: row), which {change} changes. "
                f"Use match: id, or remove {change}.",
            )
            return


def _capabilities(
    loc: Loc, adapter: RoleAdapterConfig, backend: BackendEntry, context: BackendContext
) -> Iterator[ConfigProblem]:
    """Capabilities that an adapter needs and its backend lacks."""
    has = _can(backend, context)
    for index, name in enumerate(adapter.capabilities):
        needed = _CAPABILITIES.get(name)
        if needed is None:
            known = ", ".join(_CAPABILITIES)
            yield ConfigProblem((*loc, index), f"no capability '{name}'. Known: {known}.{closest(name, _CAPABILITIES)}")
        elif has is not None and needed not in has:
            can = ", ".join(sorted(has))
            name = without_folders(backend.type)
            yield ConfigProblem((*loc, index), f"backend '{name}' lacks '{needed}'. It can: {can}.")


def _blind_judges(loc: Loc, task: ResolvedTask, context: BackendContext) -> Iterator[ConfigProblem]:
    """Judges that are to see or hear what the model makes, and cannot."""
    made = getattr(built(task.dut.backend, context), "makes", None)
    for judge in (task.judge, *task.other_judges) if made is not None else ():
        has = None if judge is None else _can(judge.backend, context)
        if judge is not None and has is not None and "images" not in has:
            name = without_folders(judge.backend.type)
            said = f"the model answers with {made}, which the judge's backend '{name}' does not take: name another."
            yield ConfigProblem((*loc, "judge_adapter_id"), said)


def _verdict(
    loc: Loc, adapter: RoleAdapterConfig, backend: BackendEntry, context: BackendContext
) -> Iterator[ConfigProblem]:
    """A form of verdicts that the judge's backend does not give."""
    needed = {"labels": "logprobs", "schema": "schema"}.get(adapter.verdict)
    has = _can(backend, context) if needed is not None else None
    if needed is not None and has is not None and needed not in has:
        what = "log probabilities" if needed == "logprobs" else "answers by a JSON schema"
        name = without_folders(backend.type)
        yield ConfigProblem(loc, f"backend '{name}' gives no {what}: set verdict: text, or another backend.")


def _class_path(loc: Loc, path: str) -> Iterator[ConfigProblem]:
    from gage_eval.models.backends.role_hooks import RoleHooks

    try:
        RoleHooks(path).identity()
    except InputError as error:
        yield ConfigProblem(loc, str(error), error)


def _examples(loc: Loc, task: ResolvedTask) -> Iterator[ConfigProblem]:
    """A prompt that would replace the messages and so drop the examples."""
    few_shot, prompt = task.task.few_shot, task.dut.prompt
    if few_shot is None or few_shot.k == 0 or prompt is None:
        return
    template = prompt.template
    text = canonical_text(template if isinstance(template, str) else [message.content for message in template])
    if "history" not in text and "few_shot_examples" not in text:
        yield ConfigProblem(
            loc,
            f"prompt '{prompt.prompt_id}' replaces the messages and shows no examples; show 'history', which holds "
            "them, in it, or remove the prompt or few_shot.",
        )
