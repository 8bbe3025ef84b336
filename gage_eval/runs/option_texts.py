"""The texts of a run's options, for the command line, the Python API and the forms of the flows.

They are separate from `RunOptions`, because importing pydantic takes longer than ``gage --help`` may take.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Option:
    """One option of a run.

    Attributes:
        title: the option's name in a form.
        description: what it does, one sentence.
        least: the smallest allowed number.
        many: whether it can be given several times.
        flag: whether it is an on/off option.
    """

    title: str
    description: str
    least: int | None = None
    many: bool = False
    flag: bool = False


OPTIONS: Mapping[str, Option] = {
    "config": Option(
        "Config",
        "Path of a config file, suite:NAME or suite:NAME@vN for a built-in suite, or bundle:NAME for a config that a "
        "submitted run left in the store.",
    ),
    "text": Option(
        "Config text", "The config itself as YAML; its relative paths start from the folder given as config."
    ),
    "run_id": Option("Run id", "Name of the run; a new random name by default."),
    "store": Option(
        "Store", "The store of all results: a folder, s3://bucket/prefix, or, for a run at a Prefect API, block:NAME."
    ),
    "output_dir": Option("Folder of runs", "The folder of all runs; <store>/runs by default."),
    "max_samples": Option("Most samples", "At most this many rows of each dataset.", least=1),
    "shuffle_seed": Option("Seed", "Shuffle the rows with this seed first, so that a limit draws from all of them."),
    "task_ids": Option("Task ids", "Only these tasks.", many=True),
    "sample_ids": Option("Sample ids", "Only these samples.", many=True),
    "data_dir": Option("Data folder", "A folder that holds the suite's data, in any layout; nothing is fetched then."),
    "model_path": Option("Model path", "Path of the checkpoint, for engines that load one."),
    "freshness": Option(
        "Freshness", "Reuse only answers of this freshness, such as a date; a new one asks every model and judge again."
    ),
    "model": Option(
        "Model", "The model under test: its name at the endpoint, a folder, a .gguf file, or a name on the hub."
    ),
    "endpoint": Option("Endpoint", "URL of an OpenAI-compatible server, such as http://127.0.0.1:8000/v1."),
    "engine": Option("Engine", "Backend type, such as vllm, transformers or llama_cpp; the one that fits by default."),
    "api_key_env": Option("Key variable", "Variable that holds the API key; OPENAI_API_KEY for OpenAI's endpoint."),
    "api_key_block": Option(
        "Key block", "Prefect block that holds the API key: a Secret by its name, or model-endpoint/NAME."
    ),
    "model_block": Option(
        "Model block", "Prefect block that describes the model: a Model Endpoint or a vLLM Engine, by its name."
    ),
    "judges": Option(
        "Judge", "Model of the judge, for suites that need one; one for each judge if there are several.", many=True
    ),
    "judge_endpoint": Option("Judge endpoint", "URL of the judge's server; the model's by default."),
    "judge_api_key_env": Option("Judge key variable", "Variable that holds the API key of the judge's server."),
    "judge_api_key_block": Option("Judge key block", "Prefect Secret block that holds the key of the judge's server."),
    "overrides": Option(
        "Overrides", "Changes of the config, each as path=value, such as tasks.mine.max_samples=20.", many=True
    ),
    "concurrency": Option("Concurrency", "Most requests in flight at each endpoint.", least=1),
    "refresh": Option("Refresh", "Stages to compute again, although their results are stored.", many=True),
    "verify": Option("Verify", "Check the hashes of every stored result that is used again.", flag=True),
    "resume": Option("Resume", "Resume the run of that id.", flag=True),
    "work_pool": Option(
        "Work pool",
        "Prefect work pool whose machines serve the models that need an engine; a submitted run runs there as a whole.",
    ),
    "only_errors": Option("Only errors", "Ask again only for rows that ended in an error.", flag=True),
}
