"""Scores of programs that were run with tests: what `execution` of a task writes."""

from dataclasses import replace

from gage_eval.scoring.metrics.base import Score, metric

_STATUS = {"status": "execution.status"}
_SAID = {"reason": "execution.reason", "text": "execution.text"}


@metric("execution_passed", binary=True, version=1, fields={**_STATUS, **_SAID})
def execution_passed(status: str, reason: str = "", text: str = "") -> Score:
    """1 when the program passed all its tests, else 0. The task's `execution` runs it.

    An answer without a program is unparsed. A program that the box could not run (`box_error`) is unscored, and a later
    run tries again. Averaged over repeated answers by ``pass@k`` or ``pass^k``.
    """
    return _scored(float(status == "passed"), status, reason, text)


@metric(
    "tests_passed",
    version=1,
    bounds=(0, 1),
    fields={"passed": "execution.tests_passed", "failed": "execution.tests_failed", **_STATUS, **_SAID},
)
def share_of_tests(passed: int, failed: int, status: str, reason: str = "", text: str = "") -> Score:
    """The share of its tests that a program passed, in 0..1; 0 for a program that ran none.

    Answers without a program and programs that could not be run count as for `execution_passed`.
    """
    return _scored(passed / (passed + failed) if passed + failed else float(status == "passed"), status, reason, text)


@metric(
    "cruxeval",
    binary=True,
    version=1,
    fields={**_STATUS, **_SAID, "code": "execution.code", "called": "sample.metadata.called"},
)
def cruxeval(status: str, reason: str = "", text: str = "", code: str = "", called: str = "") -> Score:
    """1 when the predicted output or input of CRUXEval is right, else 0.

    As in its own scorer, an answer does not count as an answer if it repeats the call whose output it should predict
    (``called``), or holds no call where one is asked for. Alone it is wrong. Of several answers, ``cruxeval_pass@k``
    leaves it out.
    """
    is_no_answer = called in code if called else reason == "no_program"
    score = _scored(float(status == "passed" and not is_no_answer), status, reason, text)
    return replace(score, components={"score": [float(is_no_answer)]})


def _scored(value: float, status: str, reason: str, text: str) -> Score:
    if status == "box_error":
        return Score.unscored(text or "the box failed", reason="box_error")
    if reason == "no_program":
        return Score.unparsed("the answer holds no program", reason="no_match")
    explanation = None if status == "passed" else f"{status.replace('_', ' ')}: {text or reason}".rstrip(": ")
    return Score(value, explanation=explanation)
