"""The options of a run with their types and texts, for the Python API, the command line and the forms of the flows.

They are separate from `RunOptions`, because importing pydantic takes longer than ``gage --help`` may take.
"""

import inspect
import re
from collections.abc import Sequence
from typing import Any, TypedDict, get_type_hints


class RunOptionsDict(TypedDict, total=False):
    """The options of `gage_eval.run`. `RunOptions` has their defaults.

    Attributes:
        run_id: Name of the run; a new random name by default.
        store: The store of all results: a folder, s3://bucket/prefix, or, for a run at a Prefect API, block:NAME.
        output_dir: The folder of all runs; the folder runs of the store by default.
        max_samples: At most this many rows of each dataset.
        quick: Draw this many samples of each task at random, each subject with its share; the intervals are those of
            the scores of all its samples.
        shuffle_seed: Shuffle the rows with this seed first, so that a limit draws from all of them.
        task_ids: Only these tasks, or some subjects of them, such as 'mmlu[anatomy,high_school_*]'; names may be
            patterns, and those of groups.
        sample_ids: Only these samples.
        data_dir: A folder that holds the suite's data, in any layout; nothing is fetched then.
        model: The model under test: its name at the endpoint, a folder, a .gguf file, or a name on the hub.
        endpoint: URL of an OpenAI-compatible server, such as http://127.0.0.1:8000/v1.
        engine: Backend type, such as vllm, transformers or llama_cpp; the one that fits by default.
        api_key_env: Variable that holds the API key; OPENAI_API_KEY for OpenAI's endpoint.
        api_key_block: Prefect block that holds the API key: a Secret by its name, or model-endpoint/NAME.
        model_block: Prefect block that describes the model: a Model Endpoint or a vLLM Engine, by its name.
        judges: Model of the judge, for suites that need one; one for each judge if there are several.
        judge_endpoint: URL of the judge's server; the model's by default.
        judge_api_key_env: Variable that holds the API key of the judge's server.
        judge_api_key_block: Prefect Secret block that holds the key of the judge's server.
        model_path: Path of the checkpoint, for engines that load one.
        freshness: Reuse only answers of this freshness, such as a date; a new one asks every model and judge again.
        overrides: Changes of the config, each as path=value, such as tasks.mine.max_samples=20.
        concurrency: Most requests in flight at each endpoint.
        refresh: Stages to compute again, although their results are stored.
        verify: Check the hashes of every stored result that is used again.
        work_pool: Prefect work pool whose machines serve the models that need an engine; a submitted run runs
            there as a whole.
    """

    run_id: str | None
    store: str | None
    output_dir: str | None
    max_samples: int | None
    quick: int | None
    shuffle_seed: int | None
    task_ids: Sequence[str]
    sample_ids: Sequence[str]
    data_dir: str | None
    model: str | None
    endpoint: str | None
    engine: str | None
    api_key_env: str | None
    api_key_block: str | None
    model_block: str | None
    judges: Sequence[str]
    judge_endpoint: str | None
    judge_api_key_env: str | None
    judge_api_key_block: str | None
    model_path: str | None
    freshness: str | None
    overrides: Sequence[str]
    concurrency: int | None
    refresh: Sequence[str]
    verify: bool
    work_pool: str | None


class AllOptions(RunOptionsDict, total=False):
    """All options of a run.

    Attributes:
        config: Path of a config file, suite:NAME or suite:NAME@vN for a built-in suite, or bundle:NAME for a config
            that a submitted run left in the store.
        text: The config itself as YAML; its relative paths start from the folder given as config.
        resume: Resume the run of that id.
        only_errors: Ask again only for rows that ended in an error.
        judge_only: Ask only judges; the stored answers of the model under test are taken as they are.
    """

    config: str
    text: str | None
    resume: bool
    only_errors: bool
    judge_only: bool


TYPES: dict[str, Any] = get_type_hints(AllOptions)
"""The type of each option."""

LEAST = {"max_samples": 1, "quick": 2, "concurrency": 1}
"""The smallest number that an option allows."""

_DOCUMENTED = {
    name: " ".join(text.split())
    for options in (RunOptionsDict, AllOptions)
    for name, text in re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", inspect.getdoc(options) or "", re.MULTILINE)
}
# With -OO, Python keeps no docstrings.
TEXTS = {name: _DOCUMENTED.get(name, "") for name in TYPES}
"""What each option does, one sentence."""
