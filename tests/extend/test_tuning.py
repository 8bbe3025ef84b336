"""A lean process starts without pandas and other commands, and can still import pandas."""

import ctypes
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gage_eval.cli.main import COMMANDS

_LEAN = """
import sys
import pyarrow as pa
from gage_eval.extend import loading
from gage_eval.extend.tuning import tune_process
tune_process()
assert pa.array([{"a": ["x"]}]).to_pylist() == [{"a": ["x"]}]
assert "pandas" not in sys.modules
"""


@pytest.mark.parametrize(
    "wanted",
    [
        "assert pa.table({'a': [1]}).to_pandas()['a'].tolist() == [1]",
        "import pandas; assert pa.Table.from_pandas(pandas.DataFrame({'a': [None, 1.0]}))['a'].null_count == 1",
        "loading.load_object('json:dumps'); import pandas; assert pa.array(pandas.Series(['x', None])).null_count",
    ],
    ids=["to pandas", "from pandas", "a plug-in's series"],
)
def test_arrow_and_pandas_work_together_in_a_process_that_began_without_pandas(wanted: str) -> None:
    done = subprocess.run([sys.executable, "-c", _LEAN + wanted], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


_THREADS_THAT_ALLOCATE = """
import ctypes
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    kept = [list(pool.map(bytearray, [10_000] * 100)) for _ in range(4)]
ctypes.CDLL(None).malloc_stats()
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_stats"), reason="the C library is not glibc")
def test_threads_of_a_lean_process_get_no_heaps_of_their_own() -> None:
    heaps = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr.count("Arena ")
        for code in (_THREADS_THAT_ALLOCATE, _LEAN + _THREADS_THAT_ALLOCATE)
    ]
    # An import may have started a thread with a heap of its own before.
    assert heaps[1] <= 2 < heaps[0]


_RUN = """
import gc, sys
from gage_eval.cli.main import main
collections = []
gc.callbacks.append(lambda phase, info: collections.append(gc.get_threshold()[0]))
sys.argv = ["gage", "run", "config.yaml", "--inline", "--store", "store"]
try:
    main()
except SystemExit as ended:
    assert not ended.code
"""
_CONFIG = """
datasets: [{dataset_id: d, params: {path: d.jsonl}}]
backends: [{backend_id: b, type: dummy}]
metrics: [exact_match]
"""


@pytest.fixture
def run_of_one_row(tmp_path: Path) -> Callable[[str], str]:
    """Function that runs a config of one row in a fresh process, then a statement, and returns the output."""

    def run(then: str) -> str:
        (tmp_path / "config.yaml").write_text(_CONFIG, encoding="utf-8")
        (tmp_path / "d.jsonl").write_text('{"question": "q", "answer": "a"}\n', encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-c", _RUN + then], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "exact_match" in done.stdout
        return done.stdout.splitlines()[-1]

    return run


# What other runs need, such as exports, and libraries that cost more than they give.
_NOT_NEEDED = (
    "pandas", "prefect", "aiohttp", "fsspec", "datasets", "duckdb", "multiprocessing", "pydantic_settings", "html",
    "gage_eval.runs.results.export",
)  # fmt: skip


def test_a_run_imports_nothing_that_it_does_not_need(run_of_one_row: Callable[[str], str]) -> None:
    assert run_of_one_row(f"print(sorted(set({_NOT_NEEDED}) & {{*sys.modules}}))") == "[]"


def test_no_garbage_is_collected_while_a_run_starts(run_of_one_row: Callable[[str], str]) -> None:
    """The imports of a run leave 100,000 objects. To scan them takes 5 % of the CPU time of a run of one row."""
    assert run_of_one_row("print(sorted({*collections} - {700}))  # 700: before the command begins") == "[]"


_TICKS_OF_OTHER_THREADS = """
import os, threading
others = {*map(int, os.listdir("/proc/self/task"))} - {thread.native_id for thread in threading.enumerate()}
stats = [open(f"/proc/self/task/{other}/stat").read() for other in others]
print(sum(int(stat.rpartition(")")[2].split()[11]) for stat in stats))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the system has no /proc")
def test_idle_threads_of_numpy_take_no_cpu_time(run_of_one_row: Callable[[str], str]) -> None:
    """They waited without giving up their core: a seventh of the CPU time of a run of one row."""
    assert int(run_of_one_row(_TICKS_OF_OTHER_THREADS)) <= 3  # ticks of 10 ms; 11 for one thread that spins


def test_a_command_imports_only_its_own_module() -> None:
    for arguments, wanted in ((["validate", "none.yaml"], {"inspect"}), (["--help"], {*COMMANDS})):
        program = (
            "import sys\nfrom gage_eval.cli.main import main\n"
            f"try:\n    main({arguments})\nexcept SystemExit:\n    pass\n"
            f"print(*[name for name in {[*COMMANDS]} if f'gage_eval.cli.{{name}}' in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert set(done.stdout.splitlines()[-1].split()) == wanted


def test_the_table_of_commands_names_what_each_module_adds() -> None:
    for module, commands in COMMANDS.items():
        program = (
            f"import gage_eval.cli.{module}, typer\nfrom gage_eval.cli.main import app\n"
            "print(*sorted(typer.main.get_command(app).commands))"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout.split() == sorted(commands)
