"""Every YAML example of the first architecture document runs after the key changes of docs/older-configs.md.

An example shows a part of a config. `_whole` adds the rest, and files of the right form where the example names files.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from gage_eval.base.errors import ConfigError
from gage_eval.config.load import parse_config
from gage_eval.runs import RunOptions, RunOutcome, run_inline
from gage_eval.runs.folder import RunFolder
from tests.support.endpoint import MockEndpoint, mock_endpoint
from tests.support.pictures import write_image

Config = dict[str, Any]
SEEDS = Path(__file__).parents[2].parent / "shared" / "seeds"
ENDPOINT_OF_EXAMPLES = "http://127.0.0.1:1234/v1"
BLOCKS = 16


def _blocks() -> dict[str, str]:
    """The examples by the line where they begin; none where the document is not at hand."""
    examples = {}
    for file in sorted(SEEDS.glob("002_*.txt")):
        text = file.read_text(encoding="utf-8")
        for block in re.finditer(r"^( *)```yaml\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
            line = text[: block.start()].count("\n") + 1
            # In a list of the document only the first line of an example is indented with the list.
            body = block[2].removeprefix(block[1]) if block[1] else dedent(block[2])
            examples[f"line {line}"] = body
    return examples


EXAMPLES = _blocks()
BACKEND_OF_ONES_OWN = """
from gage_eval.plugins import BackendConfig, BaseBackend, Request, Response, identity


class MyBackendConfig(BackendConfig):
    model_path: str = identity("infer", "")


class MyBackend(BaseBackend[MyBackendConfig]):
    type = "my_backend"
    Config = MyBackendConfig
    capabilities = frozenset({"chat"})

    async def call(self, request: Request, body: bytes) -> Response:
        return Response("ok", answer=self.config.model_path, attempts=1)
"""
SCRIPT_OF_ONES_OWN = """
class MyEngineBackend:
    def __init__(self, some_extra_flag):
        self.flag = some_extra_flag

    def generate(self, request):
        return {"answer": f"flag {self.flag}"}
"""


# --- the changes that the page lists, by the text of its first column


def _max_pixels(config: Config) -> None:
    for adapter in config.get("role_adapters", []):
        settings = adapter.get("backend", {}).get("config", {})
        if "max_pixels" in settings:
            pixels = settings.pop("max_pixels")
            config["datasets"] = [{"dataset_id": "images", "params": {"path": "images.jsonl"}}]
            config["datasets"][0]["params"]["image_max_pixels"] = pixels


def _class_path(config: Config) -> None:
    for adapter in config.get("role_adapters", []):
        if adapter.get("class_path", "").startswith("gage_eval.role.adapters."):
            del adapter["class_path"]


def _rouge(config: Config) -> None:
    for metric in config.get("metrics", []):
        if metric.get("implementation") == "rouge_l":
            metric["implementation"] = "rouge"


def _my_backend(config: Config) -> None:
    for adapter in config.get("role_adapters", []):
        if adapter.get("backend", {}).get("type") == "my_backend":
            adapter["backend"]["type"] = "my_backend.py:MyBackend"


CHANGES: dict[str, Callable[[Config], None]] = {
    "`max_pixels` of a backend": _max_pixels,
    "`class_path: gage_eval.role.adapters.…`": _class_path,
    "`implementation: rouge_l`": _rouge,
    "`type: my_backend` for a class of yours": _my_backend,
}
# What each change is for: the refusal of an example without it.
REFUSED_WITHOUT = {
    "`max_pixels` of a backend": ("line 1854", "write image_max_pixels in the dataset"),
    "`class_path: gage_eval.role.adapters.…`": ("line 1343", "gage_eval.role"),
    "`implementation: rouge_l`": ("line 1592", "rouge"),
    "`type: my_backend` for a class of yours": ("line 1740", "my_backend"),
}


# --- what an example leaves out


def _rows(folder: Path) -> None:
    """Files under the names that the examples use."""
    (folder / "rest.jsonl").write_text(
        json.dumps(
            {
                "id": "s",
                "question": "Which letter comes first?",
                "choices": ["A letter: A", "A letter: B"],
                "answer": "A",
                "label": "A",
                "goal": "Which letter comes first?",
                "metadata": {"correct_choice": "A", "option_map": {"A": "first", "B": "second"}},
            }
        )
    )
    (folder / "piqa.jsonl").write_text(json.dumps({"goal": "Open a jar", "choices": ["Turn", "Push"], "label": 0}))
    message = [
        {"type": "image_url", "image_url": {"url": "page.png"}},
        {"type": "text", "text": "What does it say?"},
    ]
    answer = {"index": 0, "message": {"role": "assistant", "content": [{"type": "text", "text": "A"}]}}
    row = {"id": "d", "messages": [{"role": "user", "content": message}], "choices": [answer]}
    for name in ("local-datasets/HLE/hle_test_prompted.jsonl", "local-datasets/MMMU/mmmu_val_500.jsonl"):
        file = folder / name
        write_image(file.with_name("page.png"))
        file.write_text(json.dumps(row))
    write_image(folder / "page.png")
    (folder / "images.jsonl").write_text(json.dumps(row))
    (folder / "my_backend.py").write_text(BACKEND_OF_ONES_OWN)
    package = folder / "my_pkg" / "custom_backends"
    package.mkdir(parents=True)
    for place in (package, package.parent):
        (place / "__init__.py").write_text("")
    (package / "my_backend_impl.py").write_text(SCRIPT_OF_ONES_OWN)


def _whole(example: str, folder: Path, url: str, *, leave_out: str | None = None) -> Config:
    """An example with the changes of the page, made whole."""
    text = EXAMPLES[example].replace("{ ... }", "{model_path: MODEL}")
    for path in ("/mnt/model/qwen2_5_vl_3b", "/path/to/model", "MODEL"):
        text = text.replace(path, str(folder))
    text = text.replace("/data/", f"{folder}/local-datasets/MMMU/").replace(ENDPOINT_OF_EXAMPLES, url)
    config: Config = yaml.safe_load(text)
    for name, change in CHANGES.items():
        if name != leave_out:
            change(config)
    _with_data(config)
    _with_models(config)
    config.setdefault("metrics", ["exact_match"])
    return config


def _with_data(config: Config) -> None:
    of_images = "mmmu_accuracy" in str(config.get("metrics"))
    path = "local-datasets/MMMU/mmmu_val_500.jsonl" if of_images else "rest.jsonl"
    datasets = config.setdefault("datasets", [{"dataset_id": "rest", "params": {"path": path}}])
    for dataset in datasets:
        dataset["params"].setdefault("path", "piqa.jsonl")


def _with_models(config: Config) -> None:
    """The backends that adapters name, a model under test, and for a judge its prompt."""
    adapters = config.get("role_adapters", [])
    named = {adapter["backend_id"] for adapter in adapters if "backend_id" in adapter}
    known = config.setdefault("backends", [])
    known += [_dummy(name) for name in sorted(named - {backend["backend_id"] for backend in known})]
    judged = any("judge_output" in str(metric) for metric in config.get("metrics", []))
    if judged and not adapters:
        known.append(_dummy("judge"))
        adapters = config["role_adapters"] = [
            {"adapter_id": "judge", "role_type": "judge_model", "backend_id": "judge"}
        ]
    if any(adapter["role_type"] == "judge_model" for adapter in adapters):
        config["prompts"] = [{"prompt_id": "verdict", "template": "Is {{ model_answer }} right?"}]
    for adapter in adapters:
        if adapter["role_type"] == "judge_model":
            adapter["prompt_id"] = "verdict"
    if adapters and not any(adapter["role_type"] in ("dut_model", "inference") for adapter in adapters):
        known.append(_dummy("model"))
        adapters.append({"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model"})
    if not adapters and not known:
        known.append(_dummy("model"))
    if not known:
        del config["backends"]


def _dummy(name: str) -> Config:
    answer = "CORRECT: A\nSCORE: 1.0" if name == "judge" else "A"
    return {"backend_id": name, "type": "dummy", "config": {"answer": answer}}


# --- the promises


@pytest.fixture(scope="module")
def endpoint() -> Iterator[MockEndpoint]:
    with mock_endpoint(model="qwen/qwen3-vl-30b") as running:
        yield running


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not EXAMPLES:
        pytest.skip("the first architecture document is not beside this checkout (../shared/seeds)")
    monkeypatch.chdir(tmp_path)
    _rows(tmp_path)


def test_the_document_has_the_examples_that_this_file_knows() -> None:
    assert len(EXAMPLES) == BLOCKS


def test_the_changes_are_those_of_the_page(repo_root: Path) -> None:
    page = (repo_root / "docs" / "older-configs.md").read_text()
    table = page.partition("| before | now |\n|---|---|\n")[2].partition("\n\n")[0]
    listed = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()]
    # The last row of the table is about what the config around the example must have.
    assert listed == [*CHANGES, "a metric on `judge_output.…`"]


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_is_needed(change: str, tmp_path: Path) -> None:
    example, said = REFUSED_WITHOUT[change]
    config = _whole(example, tmp_path, ENDPOINT_OF_EXAMPLES, leave_out=change)
    with pytest.raises(ConfigError, match=said):
        parse_config(yaml.safe_dump(config, sort_keys=False), base_dir=tmp_path, env={})


@pytest.mark.parametrize("example", EXAMPLES or ["none"])
def test_an_example_runs(example: str, tmp_path: Path, endpoint: MockEndpoint) -> None:
    config = _whole(example, tmp_path, endpoint.url)
    text = yaml.safe_dump(config, sort_keys=False)
    loaded = parse_config(text, base_dir=tmp_path, env={})
    assert loaded.tasks
    if "vlm_transformers" in text:
        # It takes the weights of a vision model; `make test-vllm` runs this backend.
        (adapter,) = loaded.config.role_adapters
        assert adapter.backend is not None
        assert adapter.backend.config["model_path"] == str(tmp_path)
        return
    Path("config.yaml").write_text(text)
    done = run_inline(RunOptions(config="config.yaml", store="store", run_id="first"))
    _check(example, done)


def _check(example: str, done: RunOutcome) -> None:
    """What an example promises, besides that every row is answered and scored."""
    numbers = {number.metric_id: number for number in done.summary.metrics}
    assert all(number.error == 0 and number.n == 1 for number in numbers.values()), numbers
    answers = _answers(done.folder)
    if example == "line 406":
        assert numbers["judge_acc"].value == 1.0
    if example == "line 1399":
        assert answers == ["flag True"]
    if example == "line 1740":
        assert answers == [str(Path.cwd())]
    if example == "line 1892":
        assert numbers["mmmu_acc"].value == 1.0


def _answers(folder: RunFolder) -> list[str]:
    from gage_eval import open_run

    answers: list[str] = open_run(folder.run_id, store="store").responses()["answer"].to_pylist()
    return answers
