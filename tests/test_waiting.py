"""The stopwatch of the tests does not count the time in which the machine stalls."""

import os
import time

import pytest

from tests.support import waiting
from tests.support.waiting import Stopwatch


def test_a_stopwatch_measures_the_time_that_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "runnable", lambda: 1)
    began = time.process_time()
    with Stopwatch() as watch:
        time.sleep(0.5)
    assert watch.seconds > 0.3
    assert time.process_time() - began < 0.2, "it leaves the processor to what it measures"


def test_a_stopwatch_does_not_count_the_time_in_which_the_disk_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fdatasync", lambda file: time.sleep(1.0))
    began = time.monotonic()
    with Stopwatch() as watch:
        time.sleep(0.5)
    assert time.monotonic() - began >= 1.0
    assert watch.seconds < 0.5


def test_a_second_counts_less_while_others_want_the_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "runnable", lambda: 10 * (os.cpu_count() or 1))
    began = time.monotonic()
    with Stopwatch() as watch:
        time.sleep(0.5)
    assert 0 < watch.seconds <= (time.monotonic() - began) / 10
