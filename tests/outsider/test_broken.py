"""Plug-ins written from the pages alone and broken on purpose: one sentence with file and method, never a traceback."""

import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest
from outsider.pages import write_files
from support.command import Command

from gage_eval.extend.loading import PluginError


@dataclass(frozen=True)
class Break:
    """A way to break the example of a page.

    Attributes:
        page: whose example.
        old, new: what is written instead of what.
        said: what both commands say; part of the sentence.
        at_run: the config is valid and the run says it.
        code: the exit code of the run.
    """

    page: str
    old: str
    new: str
    said: str
    at_run: bool = False
    code: int = 2


RAISES = "raise ValueError('boom')"

BREAKS = {
    # A loader
    "loader without identity": Break(
        "loader.md", "def identity(", "def identify(", "loader cards.py:Cards lacks identity()"
    ),
    "loader without records": Break("loader.md", "def records(", "def rows(", "loader cards.py:Cards lacks records()"),
    "loader that is a function": Break(
        "loader.md", "cards.py:Cards", "cards.py:json", "cards.py:json is of type module, not a class with the methods"
    ),
    "loader with another constructor": Break(
        "loader.md",
        "params: dict[str, Any], base_dir: Path)",
        "params: dict[str, Any])",
        "loader cards.py:Cards must take (params, base_dir)",
    ),
    "loader whose data is missing": Break("loader.md", "path: cards.txt", "path: card.txt", "no file 'card.txt'"),
    "loader that raises when it is built": Break(
        "loader.md",
        'self.file = base_dir / params["path"]',
        'self.file = base_dir / params["file"]',
        "cards.py:Cards() raised KeyError: 'file' (cards.py, line 14)",
    ),
    "loader that exits when it is built": Break(
        "loader.md",
        "        self.file = base_dir",
        "        raise SystemExit(3)\n        self.file = base_dir",
        "cards.py:Cards() raised SystemExit: 3",
    ),
    "loader whose identity raises": Break(
        "loader.md",
        'return {"sha256"',
        f'{RAISES}\n        return {{"sha256"',
        "cards.py:Cards.identity() raised ValueError: boom (cards.py, line 20)",
        at_run=True,
    ),
    "loader whose identity is nothing": Break(
        "loader.md",
        'return {"sha256": hashlib.sha256(self.file.read_bytes()).hexdigest()}',
        "return None",
        "cards.py:Cards.identity() gave None",
        at_run=True,
    ),
    "loader whose identity has no JSON form": Break(
        "loader.md",
        "hashlib.sha256(self.file.read_bytes()).hexdigest()",
        "hashlib.sha256(b'')",
        "cards.py:Cards.identity() gave dict without a JSON form",
        at_run=True,
    ),
    "loader that breaks half-way": Break(
        "loader.md",
        "What is 2 + 2?|4",
        "What is 2 + 2?",
        "cards.py:Cards.records() raised ValueError: not enough values to unpack",
        at_run=True,
    ),
    "loader of records without lines": Break(
        "loader.md", "yield number, json.dumps(", "yield (", "cards.py:Cards.records() gave dict", at_run=True
    ),
    "loader of nothing": Break(
        "loader.md",
        "                yield number, json",
        "                number, json",
        "cards.py:Cards.records() raised TypeError: 'NoneType' object is not iterable",
        at_run=True,
    ),
    "loader that exits": Break(
        "loader.md",
        "                question, answer",
        "                raise SystemExit\n                question, answer",
        "cards.py:Cards.records() raised SystemExit (cards.py, line",
        at_run=True,
    ),
    # A backend
    "backend that is none": Break(
        "backend.md", "parrot.py:Parrot", "parrot.py:ParrotConfig", "backend parrot.py:ParrotConfig lacks identity()"
    ),
    "backend of another name": Break(
        "backend.md", "parrot.py:Parrot", "parrot.py:Parot", "'parrot.py' has no 'Parot'. Did you mean 'Parrot'?"
    ),
    "backend without call": Break(
        "backend.md", "async def call(", "async def ask(", "backend parrot.py:Parrot lacks call"
    ),
    "backend whose call is not a coroutine": Break(
        "backend.md", "async def call(", "def call(", "parrot.py:Parrot.call() must be a coroutine"
    ),
    "backend whose call takes less": Break(
        "backend.md",
        "request: Request, body: bytes)",
        "request: Request)",
        "parrot.py:Parrot.call() must take 2 arguments: it takes",
    ),
    "backend without a type": Break("backend.md", '    type = "parrot"\n', "", "backend parrot.py:Parrot lacks type"),
    "backend with a limit that nobody asks for": Break(
        "backend.md",
        '    type = "parrot"\n',
        '    type = "parrot"\n    max_concurrency = 2\n',
        "backend parrot.py:Parrot: an attribute max_concurrency has no effect",
    ),
    "backend without lookup_field": Break(
        "backend.md",
        '    type = "parrot"\n',
        '    type = "parrot"\n\n    def __init__(self, config, context):\n        super().__init__(config, context)\n'
        "        del self.lookup_field\n",
        "backend parrot.py:Parrot lacks lookup_field; derive it from gage_eval.plugins.BaseBackend",
    ),
    "backend whose config is none": Break(
        "backend.md", "config=ParrotConfig)", "config=3)", "backend parrot.py:Parrot: config=3 is not a subclass"
    ),
    "backend with a wrong setting": Break("backend.md", 'mark: "!"', "mark: 3", "must be text, not 3"),
    "backend that raises when it is built": Break(
        "backend.md",
        '    type = "parrot"\n',
        f'    type = "parrot"\n\n    def __init__(self, *_):\n        {RAISES}\n',
        "parrot.py:Parrot() raised ValueError: boom",
    ),
    "backend that does not open": Break(
        "backend.md",
        "    async def call",
        f"    async def open(self, log_folder):\n        {RAISES}\n\n    async def call",
        "parrot.py:Parrot.open() raised ValueError: boom",
        at_run=True,
    ),
    "backend that does not close": Break(
        "backend.md",
        "    async def call",
        f"    async def close(self):\n        {RAISES}\n\n    async def call",
        "parrot.py:Parrot.close() raised ValueError: boom",
        at_run=True,
    ),
    "backend whose call raises": Break(
        "backend.md",
        "        assert request.messages is not None",
        f"        {RAISES}",
        "parrot.py:Parrot.call() raised ValueError: boom (parrot.py, line",
        at_run=True,
        code=1,
    ),
    "backend whose call exits": Break(
        "backend.md",
        "        assert request.messages is not None",
        "        raise SystemExit(1)",
        "parrot.py:Parrot.call() raised SystemExit: 1",
        at_run=True,
        code=1,
    ),
    "backend that answers text": Break(
        "backend.md",
        'return Response("ok", answer=request.messages[-1]["content"] + self.config.mark, attempts=1)',
        'return "yes"',
        "parrot.py:Parrot.call() gave str, not a Response",
        at_run=True,
        code=1,
    ),
    "backend of an unknown status": Break(
        "backend.md",
        'Response("ok"',
        'Response("fine"',
        "parrot.py:Parrot.call() gave the status 'fine', not one of ok",
        at_run=True,
        code=1,
    ),
    "backend whose identity raises": Break(
        "backend.md",
        "    async def call",
        f"    def identity(self):\n        {RAISES}\n\n    async def call",
        "parrot.py:Parrot.identity() raised ValueError: boom",
        at_run=True,
    ),
    "backend whose body is not a mapping": Break(
        "backend.md",
        "    async def call",
        "    def body(self, request):\n        return 3\n\n    async def call",
        "parrot.py:Parrot.body() gave int, not a dict",
        at_run=True,
    ),
    # A filter
    "filter with two texts": Break(
        "filter.md",
        "text: str, *, opening",
        "text: str, other: str, *, opening",
        "filter brackets.py:in_brackets must take (text): it also needs other",
    ),
    "filter that is a text": Break(
        "filter.md",
        "def in_brackets(",
        "in_brackets = '['\ndef other(",
        "brackets.py:in_brackets is of type str, not a function of a text",
    ),
    "filter that is a class": Break(
        "filter.md",
        "def in_brackets(",
        "class in_brackets: ...\ndef other(",
        "brackets.py:in_brackets is a class, not a function of a text",
    ),
    "filter with an unknown annotation": Break(
        "filter.md",
        "-> str | None:",
        "-> 'Nothing':",
        "the signature of filter brackets.py:in_brackets raised NameError: name 'Nothing' is not defined",
    ),
    "filter that raises": Break(
        "filter.md",
        "    _, found",
        f"    {RAISES}\n    _, found",
        "brackets.py:in_brackets() raised ValueError: boom (brackets.py, line 3)",
        at_run=True,
        code=1,
    ),
    "filter that gives a number": Break(
        "filter.md",
        "return rest",
        "return 3 or rest",
        "brackets.py:in_brackets() gave int, not a text or None",
        at_run=True,
        code=1,
    ),
    "filter that exits": Break(
        "filter.md",
        "    _, found",
        "    raise SystemExit(0)\n    _, found",
        "brackets.py:in_brackets() raised SystemExit: 0",
        at_run=True,
        code=1,
    ),
    # A metric
    "metric of an unknown argument": Break(
        "metric.md", "prediction: str, reference: str, *", "candidate: str, *", "reads 'candidate' from nowhere"
    ),
    "metric of an unknown parameter": Break("metric.md", "letters: 4", "leters: 4", "has no parameter 'leters'"),
    "metric that raises at import": Break(
        "metric.md",
        "def same_ending",
        "1 / 0\n\n\ndef same_ending",
        "cannot load 'ending.py:same_ending': ending.py raised ZeroDivisionError: division by zero (ending.py, line 1)",
    ),
    "metric that exits at import": Break(
        "metric.md",
        "def same_ending",
        "raise SystemExit('bye')\n\n\ndef same_ending",
        "cannot load 'ending.py:same_ending': ending.py raised SystemExit: bye (ending.py, line 1)",
    ),
    "metric with a slip of syntax": Break(
        "metric.md",
        "def same_ending",
        "def same ending",
        "cannot load 'ending.py:same_ending': ending.py raised SyntaxError: expected '(' (ending.py, line 1)",
    ),
    "metric of a missing file": Break(
        "metric.md", '"ending.py:', '"endings.py:', "for plug-in 'endings.py:same_ending'. Did you mean 'ending.py'?"
    ),
    "metric without a name": Break("metric.md", '"ending.py:same_ending"', "ending.py", "'ending.py' is a file"),
    "metric with a strange version": Break(
        "metric.md", "    return float", "    return float", "its version is '1.0', not a whole number"
    ),
    "metric that raises": Break(
        "metric.md",
        "    return float(",
        f"    {RAISES}\n    return float(",
        "ending.py:same_ending() raised ValueError: boom (ending.py, line 3)",
        at_run=True,
        code=1,
    ),
    "metric that gives a text": Break(
        "metric.md",
        "return float(",
        "return str(",
        "ending.py:same_ending() gave str, not a number or a Score",
        at_run=True,
        code=1,
    ),
    "metric that gives nonsense in a mapping": Break(
        "metric.md",
        "return float(prediction",
        "return {'score': 'good'} or (prediction",
        "ending.py:same_ending() gave str, not a number or a Score",
        at_run=True,
        code=1,
    ),
    "metric that exits": Break(
        "metric.md",
        "    return float(",
        "    raise SystemExit\n    return float(",
        "ending.py:same_ending() raised SystemExit (ending.py, line 3)",
        at_run=True,
        code=1,
    ),
    # An aggregation
    "aggregation that raises": Break(
        "aggregation.md",
        "    values = sorted",
        f"    {RAISES}\n    values = sorted",
        "worst.py:lower_half() raised ValueError: boom",
        at_run=True,
    ),
    "aggregation that gives a number": Break(
        "aggregation.md",
        "return Aggregate(sum(half) / len(half)) if half else Aggregate(None)",
        "return 0.5",
        "worst.py:lower_half() gave float, not an Aggregate",
        at_run=True,
    ),
    "aggregation of a text": Break(
        "aggregation.md",
        "Aggregate(sum(half) / len(half))",
        "Aggregate('half')",
        "worst.py:lower_half() gave an Aggregate whose value is str, not a number",
        at_run=True,
    ),
    # A preprocessor
    "preprocessor without to_sample": Break(
        "preprocessor.md", "def to_sample(", "def sample(", "preprocessor reviews.py:Sentiment lacks to_sample()"
    ),
    "preprocessor that raises when it is built": Break(
        "preprocessor.md",
        "        self.good_from",
        f"        {RAISES}\n        self.good_from",
        "reviews.py:Sentiment() raised ValueError: boom",
    ),
    "preprocessor that raises": Break(
        "preprocessor.md",
        "record['text']",
        "record['txt']",
        "reviews.py:Sentiment failed with KeyError: 'txt'",
        at_run=True,
    ),
    "preprocessor that gives a text": Break(
        "preprocessor.md",
        "        return {",
        "        return 'x' or {",
        "preprocessor reviews.py:Sentiment gave",
        at_run=True,
    ),
    # A verdict parser
    "verdict parser that gives a number": Break(
        "verdict-parser.md",
        "return Verdict(",
        "return 1 or Verdict(",
        "grades.py:school_grade() gave int, not a Verdict",
        at_run=True,
        code=1,
    ),
    "verdict parser that takes nothing": Break(
        "verdict-parser.md", "text: str, *, best", "*, best", "verdict parser grades.py:school_grade must take (text)"
    ),
    # A suite
    "suite without a definition": Break(
        "suite.md", "definition:", "definitions:", "a BuiltinTemplate needs a 'definition'"
    ),
    "suite with an unknown section": Break("suite.md", "  metrics: [", "  metrix: [", "unknown key 'metrix'"),
    "suite with an unknown task in a group": Break(
        "suite.md", "tasks: [sums, capitals]", "tasks: [sums, towns]", "towns"
    ),
    # Entry points have no files beside the config: their code is that of the pages above.
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_plug_in_is_one_sentence_with_file_and_method(name: str, tmp_path: Path, gage: Command) -> None:
    broken = BREAKS[name]
    write_files(broken.page, tmp_path)
    texts = {file: file.read_text() for file in tmp_path.iterdir()}
    assert any(broken.old in text for text in texts.values()), "there is something to break"
    for file, text in texts.items():
        file.write_text(text.replace(broken.old, broken.new))
    if name == "metric with a strange version":
        with (tmp_path / "ending.py").open("a") as file_:
            file_.write("\n\nsame_ending.version = '1.0'\n")
    (config,) = (file.name for file in tmp_path.glob("*.yaml"))
    checked = gage("validate", config)
    assert (checked.code == 0) == broken.at_run, checked.err
    if not broken.at_run:
        assert broken.said in checked.sentence
    ran = gage("run", config)
    assert broken.said in ran.sentence
    assert ran.code == broken.code, ran.sentence
    assert max(map(len, ran.sentence.splitlines())) < 1000


def test_debug_shows_what_a_plug_in_raised(tmp_path: Path, gage: Command) -> None:
    write_files("metric.md", tmp_path)
    (tmp_path / "ending.py").write_text("1 / 0\n")
    with pytest.raises(Exception, match="1 problem") as caught:
        gage("--debug", "validate", "ending.yaml")
    told = caught.value.__cause__
    assert isinstance(told, PluginError)
    assert isinstance(told.__cause__, ZeroDivisionError)


def test_a_plug_in_file_is_run_once_for_validation_and_run(tmp_path: Path, gage: Command) -> None:
    write_files("backend.md", tmp_path)
    file = tmp_path / "parrot.py"
    file.write_text("with open('imports.txt', 'a') as log:\n    log.write('x')\n" + file.read_text())
    assert gage("run", "parrot.yaml").code == 0
    assert (tmp_path / "imports.txt").read_text() == "x"


def test_plug_ins_are_looked_for_beside_the_config(
    tmp_path: Path, gage: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, elsewhere = tmp_path / "mine", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    (elsewhere / "cards.py").write_text("raise RuntimeError('not this one')\n")
    write_files("loader.md", folder)
    write_files("suite.md", folder)
    monkeypatch.chdir(elsewhere)
    assert gage("validate", "../mine/cards.yaml").code == 0
    assert gage("run", "../mine/cards.yaml").code == 0
    assert gage("run", "../mine/basics.yaml").code == 0


def test_a_users_folder_is_appended_to_the_path_and_hides_nothing(tmp_path: Path, gage: Command) -> None:
    write_files("metric.md", tmp_path)
    (tmp_path / "decimal.py").write_text("raise RuntimeError('hidden')\n")
    (tmp_path / "own_letters.py").write_text("LETTERS = 4\n")
    file = tmp_path / "ending.py"
    file.write_text("import decimal\nfrom own_letters import LETTERS\n" + file.read_text())
    assert gage("run", "ending.yaml").code == 0
    installed = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    assert installed & set(sys.path) <= set(sys.path[: sys.path.index(str(tmp_path))])
    assert installed & set(sys.path)


def test_an_edited_helper_of_a_plug_in_is_computed_anew(tmp_path: Path, gage: Command) -> None:
    write_files("metric.md", tmp_path)
    helper, file = tmp_path / "own_helper.py", tmp_path / "ending.py"
    helper.write_text("def last(text, count):\n    return text[-count:]\n")
    changed = file.read_text().replace("prediction[-letters:]", "last(prediction, letters)")
    file.write_text("from own_helper import last\n\n\n" + changed)
    assert gage("run", "ending.yaml").code == 0
    before = gage("plan", "ending.yaml").out
    helper.write_text("def last(text, count):\n    return text[-count:].strip()\n")
    assert gage("plan", "ending.yaml").out != before
