"""Known answers: from finished chunks, logs, an earlier result and other runs."""

from gage_eval.engine.episodes import Outcome
from gage_eval.engine.job import Job
from gage_eval.engine.loops import with_loop_noted
from gage_eval.engine.other_runs_logs import OtherRunsLogs
from gage_eval.engine.rows import outcomes_in, outcomes_of
from gage_eval.engine.wal import index_logs
from gage_eval.models.client.types import Response


class KnownAnswers:
    """Looks up known answers. Every method reads files: call it in a thread."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._other_runs = OtherRunsLogs(job.log_folder)
        # What this action's processes have logged so far, on any machine.
        job.wip.fetch_logs()
        self._logged = index_logs(job.log_folder)

    @property
    def any_answer(self) -> bool:
        """Whether this action has answers already."""
        return bool(len(self._logged)) or self._job.earlier is not None

    def logged(self, key: str) -> Response | None:
        """The logged answer to a single call."""
        payload = self._logged.get(key)
        return None if payload is None else Response.from_bytes(payload)

    def record(self, key: str) -> bytes | None:
        """The logged record under a key."""
        return self._logged.get(key)

    def finished(self, part: int) -> dict[str, Outcome]:
        """A part's outcomes by key, from the action's earlier result and its finished chunks."""
        answers: dict[str, Outcome] = {}
        if self._job.earlier is not None:
            responses, telemetry = (artifact.read(part) for artifact in self._job.earlier)
            kept = outcomes_in({"responses": responses, "response_telemetry": telemetry})
            again = self._job.ask_again
            answers = {
                key: outcome for key, outcome in kept.items() if outcome.response.status != "error" and key not in again
            }
        for _, _, tables in self._job.finished_chunks(part):
            answers.update(outcomes_in(tables))
        return answers

    def find(self, keys: list[str], finished: dict[str, Outcome]) -> list[Outcome | None]:
        """The outcome of each key; None if the request must be sent.

        Args:
            keys: response keys of a chunk.
            finished: the result of `finished` for the part.
        """
        outcomes = [finished.get(key) for key in keys]
        if len(self._logged):
            for i, key in enumerate(keys):
                if outcomes[i] is None and (response := self.logged(key)) is not None:
                    outcomes[i] = Outcome(response, source="log")
        from_others = self.from_other_runs(
            [key for key, outcome in zip(keys, outcomes, strict=True) if outcome is None]
        )
        if from_others:
            outcomes = [
                from_others.get(key) if outcome is None else outcome
                for key, outcome in zip(keys, outcomes, strict=True)
            ]
        return [None if outcome is None else with_loop_noted(outcome) for outcome in outcomes]

    def from_other_runs(self, keys: list[str]) -> dict[str, Outcome]:
        """Outcomes by key of other runs: committed ones, and those in the logs of runs on this machine."""
        job = self._job
        if not job.reuse or job.earlier is not None:
            return {}
        answers = outcomes_of(job.store, job.model_identity, keys)
        logged = self._other_runs.find([key for key in keys if key not in answers])
        return answers | {key: Outcome(response, source="reused") for key, response in logged.items()}
