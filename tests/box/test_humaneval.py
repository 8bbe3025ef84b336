"""HumanEval's canonical programs pass in the box, whoever runs them."""

import asyncio

from support.boxes import NEEDS_BOX

from bench.programs import humaneval
from gage_eval.box.executors import ExecutorSettings, open_executor
from gage_eval.box.types import Execution, Limits


async def executed() -> list[Execution]:
    executor = open_executor(ExecutorSettings("bubblewrap"))
    try:
        return list(await asyncio.gather(*(executor.execute(task, Limits()) for task in humaneval())))
    finally:
        await executor.close()


@NEEDS_BOX
def test_every_canonical_program_of_humaneval_passes(shared: object) -> None:
    results = asyncio.run(executed())
    assert [result.text or result.status for result in results if result.status != "passed"] == []
    assert len(results) == 164
