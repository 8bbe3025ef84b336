"""A class of the user's answers as a model, and what it does wrong is said in one sentence."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.calls import ask, chat

from gage_eval.base.errors import InputError
from gage_eval.base.statuses import RESPONSE_STATUSES
from gage_eval.engine.runtime import Runtime
from gage_eval.models.backends.base import BackendContext
from gage_eval.models.backends.build import build_backend
from gage_eval.models.client.types import Request, Response

SCRIPT = """
class Model:
    def __init__(self, greeting="hi", **rest):
        self.greeting = greeting
        self.rest = rest
    def generate(self, request):
        return {"answer": f"{self.greeting} {request['messages'][-1]['content']} {request['draw']}",
                "prompt_tokens": 3, "tool_calls": [{"id": "1"}], "reasoning": str(request.get("temperature"))}

class Seer:
    def generate(self, request):
        holder = request["messages"][0]["content"][0]["image_url"]
        return (open(holder["path"]).read() if "path" in holder else holder["url"]) + str(holder["detail"])

class Halved:
    def generate(self, request):
        return {"answer": "a\\ud800", "logprobs": {"b": "\\ud800"}}

class Ended:
    def __init__(self, **ending):
        self.ending = ending
    def generate(self, request):
        return {"answer": "half a", **self.ending}

class Async:
    async def ainvoke(self, request):
        return "later"

class Wrong:
    def __init__(self, what="raises"):
        self.what = what
    def generate(self, request):
        if self.what == "raises":
            raise KeyError("no weights")
        return {"number": 4, "unknown": {"anser": "x"}, "status": {"status": "fine"}, "type": {"answer": 4},
                "count": {"answer": "a", "prompt_tokens": "3"}, "large": {"answer": "a", "prompt_tokens": 2**70},
                "nothing": {"prompt_tokens": 3}, "half": {"answer": "a", "logprobs": [float("nan")]}}[self.what]

class Broken:
    def __init__(self):
        raise RuntimeError("no GPU")
    def generate(self, request): ...

class Hostile:
    def __init__(self, **rest):
        pass
    def generate(self, request):
        import os, sys, time
        text = request["messages"][-1]["content"]
        if text == "What is 1 + 1?":
            exec(self.what)
        return "ANSWER: " + text
    what = ""

class Exits(Hostile):
    what = "sys.exit(0)"
class Dies(Hostile):
    what = "os._exit(0)"
class Hangs(Hostile):
    what = "time.sleep(3600)"
class Spins(Hostile):
    what = "while True: pass"
class Interrupts(Hostile):
    what = "raise KeyboardInterrupt"
class Unsayable(Hostile):
    what = "class E(Exception):\\n  def __str__(self): raise ValueError\\nraise E"

class Closes:
    def __init__(self, file):
        self.file = file
    def generate(self, request):
        return "x"
    def close(self):
        open(self.file, "w").write("closed")

class Mute: ...
function = len
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path


def answer(folder: Path, name: str, **config: Any) -> Response:
    with Runtime() as runtime:
        settings = {"file_path": "script.py", "class_name": name, **config}
        backend = runtime.backend("custom_script", settings, BackendContext(folder))
        return ask(runtime, backend, [chat(1, temperature=0)])[0]


def test_media_are_files_where_there_are_and_data_where_not_or_where_data_are_asked_for(folder: Path) -> None:
    url = "media://sha256/" + "0" * 64
    (folder / "medium").write_text("kept")
    part = {"type": "image_url", "image_url": {"url": url, "path": "/etc/passwd", "detail": 1}}
    request = Request("chat", messages=[{"role": "user", "content": [part]}])
    here = BackendContext(folder, media=lambda url: b"GIF8", media_file=lambda url: folder / "medium")
    with Runtime() as runtime:
        for context, embed, seen in (
            (here, False, "kept1"),
            (here, True, "data:image/gif;base64,R0lGOA==1"),
            (replace(here, media_file=lambda url: None), False, "data:image/gif;base64,R0lGOA==1"),
        ):
            backend = build_backend("custom_script", {"file_path": "script.py", "class_name": "Seer"}, context)
            runtime.call(backend.open(None))
            assert ask(runtime, backend, [replace(request, embed=embed)])[0].answer == seen
            runtime.call(backend.close())


def test_the_class_gets_the_rest_of_the_config_and_the_request(folder: Path) -> None:
    response = answer(folder, "Model", greeting="hello", some_flag=True)
    assert (response.status, response.answer) == ("ok", "hello What is 1 + 1? 0")
    assert (response.prompt_tokens, response.tool_calls, response.reasoning) == (3, '[{"id":"1"}]', "0")
    assert response.latency_ms is not None


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("Exits", "script", "SystemExit: 0"),
        ("Interrupts", "script", "KeyboardInterrupt:"),
        ("Unsayable", "script", "E: its text cannot be read (ValueError)"),
        ("Dies", "script_ended", "the process of script.py:Dies ended."),
        ("Hangs", "timeout", "no answer within 5 s"),
        ("Spins", "timeout", "no answer within 5 s"),
    ],
)
def test_a_row_that_breaks_the_class_costs_no_other_row(folder: Path, name: str, kind: str, said: str) -> None:
    config = {"file_path": "script.py", "class_name": name, "timeout": 5.0 if kind == "timeout" else 120.0}
    config["max_concurrency"] = 4
    with Runtime() as runtime:
        backend = runtime.backend("custom_script", config, BackendContext(folder))
        broken, *others = ask(runtime, backend, [chat(n) for n in range(1, 9)])
    assert (broken.status, broken.error_kind) == ("error", kind)
    assert said in " ".join(broken.errors)
    assert [(other.status, other.answer) for other in others] == [
        ("ok", f"ANSWER: What is {n} + 1?") for n in range(2, 9)
    ]


def test_the_class_closes_what_it_opened(folder: Path) -> None:
    assert answer(folder, "Closes", file=str(folder / "said")).status == "ok"
    assert (folder / "said").read_text() == "closed"


def test_the_class_may_use_this_package(folder: Path) -> None:
    (folder / "script.py").write_text(
        "import gage_eval\n"
        "class Model:\n"
        "    def generate(self, request):\n"
        "        same = gage_eval.score('exact_match', sample={'label': 'a'}, model_output={'answer': 'a'})\n"
        "        return str(same.values)\n"
    )
    assert answer(folder, "Model").answer == "{'score': 1.0}"


def test_half_a_character_in_an_answer_can_be_kept(folder: Path) -> None:
    response = answer(folder, "Halved")
    assert (response.answer, response.logprobs) == ("a\ufffd", '{"b":"\ufffd"}')
    assert Response.from_bytes(response.to_bytes()) == response


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ({"finish_reason": "length"}, "truncated"),
        ({"finish_reason": "content_filter"}, "refused"),
        ({"finish_reason": "eos"}, "ok"),
        ({"finish_reason": "length", "status": "ok"}, "ok"),
    ],
)
def test_the_finish_reason_gives_the_status_where_the_class_gives_none(
    folder: Path, ending: dict[str, str], status: str
) -> None:
    assert answer(folder, "Ended", **ending).status == status


@pytest.mark.parametrize("status", ["error", "skipped"])
def test_a_request_without_an_answer_has_none_whatever_the_class_says(folder: Path, status: str) -> None:
    """So that no judge is asked about it."""
    response = answer(folder, "Ended", status=status)
    assert (response.status, response.answer) == (status, None)


def test_a_coroutine_answers_too(folder: Path) -> None:
    assert answer(folder, "Async").answer == "later"


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("raises", "KeyError: 'no weights'"),
        ("number", "ValueError: it returned int, not text or a mapping"),
        ("unknown", "ValueError: it returned 'anser', which is not a field of an answer. Did you mean 'answer'?"),
        ("status", f"ValueError: its status is 'fine', not one of {', '.join(RESPONSE_STATUSES)}"),
        ("type", "ValueError: its answer is int, not str"),
        ("count", "ValueError: its prompt_tokens is '3', which is not a count"),
        ("large", f"ValueError: its prompt_tokens is {2**70}, which is not a count"),
        ("nothing", "ValueError: it returned neither 'answer' nor 'tool_calls'"),
        ("half", "ValueError: nan has no JSON form"),
    ],
)
def test_what_the_class_does_wrong_is_the_error_of_its_row(folder: Path, what: str, said: str) -> None:
    response = answer(folder, "Wrong", what=what)
    assert (response.status, response.error_kind, response.errors, response.attempts) == ("error", "script", [said], 1)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"class_name": "Nobody"}, "has no 'Nobody'"),
        ({"class_name": "function"}, "not a class"),
        ({"class_name": "Mute"}, "has neither 'generate' nor 'ainvoke'"),
        ({"class_name": "Broken"}, "cannot be built: RuntimeError: no GPU"),
        ({"class_name": "Model", "file_path": "nowhere.py"}, "no file"),
        ({"class_name": "Model", "file_path": None, "module_path": "no.such.module"}, "cannot import"),
        ({"class_name": "Model", "module_path": "os"}, "either module_path"),
        ({"class_name": "Model", "file_path": "script.sh"}, "file_path names a .py file"),
    ],
)
def test_a_class_that_cannot_be_used_is_refused_before_any_row(folder: Path, config: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        answer(folder, **{"name": config.pop("class_name"), **config})


def test_its_identity_is_its_code_and_not_where_it_lies(folder: Path) -> None:
    def identity(**config: Any) -> Any:
        settings = {"file_path": "script.py", "class_name": "Model", **config}
        return build_backend("custom_script", settings, BackendContext(folder)).identity()

    (folder / "copy.py").write_text(SCRIPT)
    before = identity()
    assert identity(file_path="copy.py") == before
    assert identity(greeting="hello") != before
    (folder / "script.py").write_text(SCRIPT + "\n# changed\n")
    assert identity() != before
