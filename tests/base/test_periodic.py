"""Work that is repeated in the background is called until it is stopped, by others or by itself."""

import threading

from gage_eval.base.periodic import Periodic


def test_the_work_is_called_again_and_again_until_it_is_stopped() -> None:
    calls: list[int] = []
    three = threading.Event()

    def work() -> None:
        calls.append(len(calls))
        if len(calls) == 3:
            three.set()

    periodic = Periodic(work, 0.001, name="test")
    assert not periodic.is_started
    periodic.start()
    assert periodic.is_started
    assert three.wait(60)
    periodic.stop()
    assert periodic._end.is_set()
    assert not periodic._thread.is_alive(), "so that nothing can be called later"


def test_a_stop_waits_for_a_call_that_is_running() -> None:
    begun, may_end, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait(60)
        done.set()

    periodic = Periodic(work, 0.001, name="test")
    periodic.start()
    assert begun.wait(60)
    threading.Timer(0.05, may_end.set).start()
    periodic.stop()
    assert done.is_set()


def test_the_work_may_stop_itself() -> None:
    calls: list[int] = []

    def work() -> None:
        calls.append(1)
        periodic.stop()

    periodic = Periodic(work, 0.001, name="test")
    periodic.start()
    periodic._thread.join(60)
    assert not periodic._thread.is_alive()
    assert calls == [1]


def test_a_stop_before_the_start_is_no_error() -> None:
    periodic = Periodic(lambda: None, 0.001, name="test")
    periodic.stop()
    assert periodic._end.is_set()
    assert not periodic.is_started
