"""Code that determines results does not change unless its version does."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gage_eval import registry
from gage_eval.errors import InputError
from gage_eval.stages import ALL
from tools import codelock
from tools.codelock import Entry, differences, main, normal_form, read, updated


def test_the_lock_fits_the_code() -> None:
    assert differences(read(), codelock.current()) == []


def test_everything_that_keys_name_by_a_version_is_locked() -> None:
    names = codelock.current().keys()
    assert {f"stages:{name}" for name in ALL} <= names
    assert {"steps:scores", "steps:render", "verdict_parsers:default", "aggregations:mean"} <= names
    for kind in codelock.PLUGINS:
        builtin = {f"{kind}:{plugin.name}" for plugin in registry.ALL[kind] if plugin.origin == "builtin"}
        assert builtin
        assert builtin <= names


def test_no_module_that_semantic_code_uses_slips_past_the_lock() -> None:
    assert codelock.unplaced() == []
    assert not codelock.SEMANTIC & codelock.MOVING


def test_the_names_of_the_lock_are_modules_that_are_there(repo_root: Path) -> None:
    for name in codelock.SEMANTIC | codelock.MOVING:
        path = repo_root / "gage_eval" / name.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").is_file(), name


# What the hash is over


def form(source: str) -> str:
    return normal_form(ast.parse(source).body)


def test_formatting_comments_and_docstrings_change_no_hash() -> None:
    plain = "def f(a, b=1):\n    return {'x': a + b}\n"
    dressed = (
        'def f(\n    a,\n    b = 1,  # why\n):\n    """Text.\n\n    More.\n    """\n'
        '    # How.\n    return ({"x": (a + b),})\n'
    )
    assert form(dressed) == form(plain)


@pytest.mark.parametrize(
    "other",
    [
        "def f(a, b=2): return a + b",
        "def f(a, b=1): return a - b",
        "def f(b, a=1): return a + b",
        "def f(a, b=1.0): return a + b",
        "def f(a, b=True): return a + b",
        "def f(a, b='1'): return a + b",
        "def f(a, *, b=1): return a + b",
        "async def f(a, b=1): return a + b",
        "@g\ndef f(a, b=1): return a + b",
    ],
)
def test_any_other_change_of_code_changes_it(other: str) -> None:
    assert form(other) != form("def f(a, b=1): return a + b")


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
))  # fmt: skip
def test_equal_constants_have_one_form_and_others_another(value: object) -> None:
    try:
        source = repr(value)
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # inf, surrogates
        return
    assert form(source) == form(ast.unparse(tree)) == form(f"(\n{source}\n)")
    assert form(source) != form(f"[{source}]")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of three modules: `metrics` uses `paths`, `store` is not semantic."""
    files = {
        "__init__": "",
        "metrics": (
            "import math\nfrom locked import paths, store\nfrom locked.paths import helper as h\n"
            "LIMIT = 3\nUNUSED = 1\n"
            "def score(x):\n    return h(x) + LIMIT + paths.other(x) + store.write(x) + math.sqrt(x)\n"
            "def stranger(x):\n    return x\n"
        ),
        "paths": (
            "BASE = 1\ndef helper(x):\n    return x + BASE\ndef other(x):\n    return x\ndef idle(x):\n    return x\n"
        ),
        "store": "def write(x):\n    return x\n",
    }
    folder = tmp_path / "locked"
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(codelock, "_PACKAGE", "locked")
    monkeypatch.setattr(codelock, "SEMANTIC", frozenset({"metrics", "paths"}))
    yield folder
    del sys.modules["locked"]


def hashed() -> str:
    codelock._module.cache_clear()
    try:
        return codelock._hash("locked.metrics", "score", {("locked.metrics", "score")})
    finally:
        codelock._module.cache_clear()


@pytest.mark.parametrize(
    ("module", "old", "new", "changes"),
    [
        ("metrics", "LIMIT = 3", "LIMIT = 4", True),
        ("metrics", "math.sqrt(x)", "math.log(x)", True),
        ("metrics", "import math\n", "import cmath as math\n", True),
        ("paths", "x + BASE", "x - BASE", True),
        ("paths", "BASE = 1", "BASE = 2", True),
        ("paths", "def other(x):\n    return x", "def other(x):\n    return -x", True),
        ("paths", "BASE = 1\n", "BASE = 1\nprint(BASE)\n", True),
        ("paths", "def idle(x):\n    return x", "def idle(x):\n    return -x", False),
        ("paths", "def idle", "@helper\ndef idle", True),
        ("metrics", "UNUSED = 1", "UNUSED = 2", False),
        ("metrics", "def stranger(x):\n    return x", "def stranger(x):\n    return -x", False),
        ("store", "return x", "return -x", False),
        ("metrics", "LIMIT = 3\nUNUSED = 1\n", "UNUSED = 1\nLIMIT = 3\n", False),
    ],
)
def test_the_hash_is_over_what_the_definition_reaches(
    module: str, old: str, new: str, changes: bool, package: Path
) -> None:
    before = hashed()
    file = package / f"{module}.py"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    assert (hashed() != before) == changes


# The lock file

A, B = Entry(1, "a" * 64), Entry(1, "b" * 64)


def test_each_difference_says_what_to_do() -> None:
    locked = {"same": A, "edited": A, "raised": A, "lowered": Entry(2, A.sha256), "gone": A}
    code = {"same": A, "edited": B, "raised": Entry(2, B.sha256), "lowered": A, "new": A}
    told = {sentence.split(":")[0].split(" ")[0]: sentence for sentence in differences(locked, code)}
    assert told.keys() == {"edited", "raised", "lowered", "gone", "new"}
    assert "raise the version" in told["edited"]
    assert "--same-results" in told["edited"]
    assert "Versions only rise" in told["lowered"]
    for name in ("raised", "gone", "new"):
        assert "make lock" in told[name]


def test_an_edit_without_a_version_is_refused_unless_the_author_gives_their_word() -> None:
    locked, code = {"x": A, "y": A}, {"x": B, "y": B}
    with pytest.raises(InputError, match="x: its code changed"):
        updated(locked, code)
    with pytest.raises(InputError, match="y: its code changed"):
        updated(locked, code, ["x"])
    with pytest.raises(InputError, match="no such entry"):
        updated(locked, code, ["z"])
    assert updated(locked, code, ["x", "y"]) == updated(locked, code, []) == code


def test_raised_new_and_removed_entries_are_recorded() -> None:
    code = {"x": Entry(2, B.sha256), "z": A}
    assert updated({"x": A, "y": A}, code) == code


def test_no_word_of_the_author_lowers_a_version() -> None:
    with pytest.raises(InputError, match="went back"):
        updated({"x": Entry(2, A.sha256)}, {"x": A}, [])


def test_the_command_checks_refuses_and_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "code.lock.json"
    now = codelock.current()
    monkeypatch.setattr(codelock, "current", lambda: now)
    assert main(["--check"], file=file) == 1
    assert main([], file=file) == 0
    assert read(file) == now
    written = file.read_text()
    name, entry = next(iter(read(file).items()))
    file.write_text(written.replace(entry.sha256, "0" * 64))
    assert main(["--check"], file=file) == 1
    assert main(["--update"], file=file) == 2
    assert f"{name}: its code changed" in capsys.readouterr().err
    assert main(["--same-results", name], file=file) == 0
    assert file.read_text() == written
    assert main(["--check"], file=file) == 0


@pytest.mark.parametrize("text", ["", "[]", "{}x", '{"a": 1}', '{"a": {"version": "x", "sha256": "y"}}'])
def test_a_damaged_lock_is_an_error_of_one_sentence(text: str, tmp_path: Path) -> None:
    file = tmp_path / "code.lock.json"
    file.write_text(text)
    with pytest.raises(InputError, match="is not a lock file"):
        read(file)
