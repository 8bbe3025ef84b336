"""An episode killed between its turns is told again from the log, up to where it was."""

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import orjson
import pytest
from crash.processes import PATIENCE_S, until
from crash.turns import KEY, ask, executed_by
from support.endpoint import mock_endpoint
from support.logs import read_logs

from gage_eval.base.canonical import decode
from gage_eval.store import Store

ROWS = 12
SCRIPT = Path(__file__).with_name("turns.py")


@pytest.mark.parametrize(("kind", "first"), [("turns", "ANSWER: {}"), ("tools", ""), ("state", "")])
def test_a_killed_conversation_replays_its_logged_turns_and_asks_only_the_rest(
    kind: str, first: str, tmp_path: Path
) -> None:
    folder = tmp_path / "store"
    with mock_endpoint(latency_ms=600, keep_bodies=True) as endpoint:
        command = [sys.executable, str(SCRIPT), str(folder), endpoint.url, str(ROWS), kind]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        # Four at a time: with 5 answers at least one conversation has its first turn and not its second.
        log = folder / "wip" / KEY / "log"
        assert until(lambda: len(list(read_logs(log))) >= 5, process)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)
        records = [decode(payload) for _, payload in read_logs(log)]
        answers = [record for record in records if isinstance(record, list)]
        outputs = [record["content"] for record in records if isinstance(record, dict)]
        before = len(endpoint.stats()["bodies"])

        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=PATIENCE_S)
        bodies = endpoint.stats()["bodies"][before:]
        undisturbed, tally = ask(Store.open(str(tmp_path / "undisturbed")), endpoint.url, ROWS, kind)
    if kind == "state":
        runs = Counter(executed_by(Store.open(str(folder))).read_text().split())
        assert max(runs.values()) > 1, "the state of an unfinished episode was made again"
    if kind == "tools":
        assert outputs, "some tools had run before the kill"
        runs = Counter(executed_by(Store.open(str(folder))).read_text().split())
        assert [runs[output] for output in outputs] == [1] * len(outputs), "no logged tool ran again"
        assert runs.keys() == {str(row + 1000) for row in range(ROWS)}
    said = orjson.loads(done.stdout)
    assert said["replayed"] == len(answers) < 2 * ROWS
    assert said["sent"] == len(bodies) == 2 * ROWS - len(answers)
    assert said["responses"] == undisturbed.id
    assert (tally.sent, tally.replayed) == (2 * ROWS, 0)
    table = undisturbed.table()
    assert len(set(table["response_key"].to_pylist())) == ROWS
    assert [[turn["answer"] for turn in turns] for turns in table["turns"].to_pylist()] == [
        [first.format(row + 1), f"ANSWER: {row + 1000}"] for row in range(ROWS)
    ]
