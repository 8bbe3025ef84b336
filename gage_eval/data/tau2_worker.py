"""The process that runs a domain of tau²-bench from its checkout: ``python tau2_worker.py FD CHECKOUT DOMAIN``.

It imports nothing of this package, because it may run in the checkout's own environment. Each socket that arrives
through FD is served by a separate process, forked after the domain was loaded, which answers lines of JSON:
`[method, arguments]` by `{"value": …}` or `{"problem": …}`. It ends with its socket, or where one call takes too long.
"""

import importlib
import json
import os
import signal
import socket
import sys
import types
from typing import Any

_SECONDS_PER_CALL = 30


class Domain:
    """A domain and, once `begin` has been called, the environment of one episode.

    Args:
        checkout: of tau²-bench.
        name: of the domain.
    """

    def __init__(self, checkout: str, name: str) -> None:
        # The package's own __init__ imports clients of models.
        package = types.ModuleType("tau2")
        package.__path__ = [f"{checkout}/src/tau2"]
        sys.modules["tau2"] = package
        self._module = importlib.import_module(f"tau2.domains.{name}.environment")
        self._messages = importlib.import_module("tau2.data_model.message")
        self._tasks = importlib.import_module("tau2.data_model.tasks")
        self._environment: Any = None

    def describe(self, split: str) -> dict[str, Any]:
        """Policy, the tools of both sides, and the tasks of a split. Imports all that `rewards` needs."""
        self._evaluators()
        environment = self._module.get_environment()
        user = [] if environment.user_tools is None else environment.get_user_tools()
        return {
            "policy": environment.get_policy(),
            "assistant": [tool.openai_schema for tool in environment.get_tools()],
            "user": [tool.openai_schema for tool in user],
            "tasks": [task.model_dump(mode="json") for task in self._module.get_tasks(split)],
        }

    def begin(self, task: dict[str, Any]) -> None:
        """Make the environment of an episode, in the state that the task says."""
        initial = self._tasks.Task.model_validate(task).initial_state
        self._environment = self._module.get_environment()
        self._environment.set_state(
            initialization_data=initial and initial.initialization_data,
            initialization_actions=initial and initial.initialization_actions,
            message_history=(initial and initial.message_history) or [],
        )

    def call(self, actor: str, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        """What a tool answers, and whether it is an error."""
        made = self._messages.ToolCall(id="call", name=name, arguments=arguments, requestor=actor)
        answered = self._environment.get_response(made)
        return answered.content, answered.error

    def rewards(self, task: dict[str, Any], messages: list[dict[str, Any]]) -> dict[str, float]:
        """The published rewards of the parts of a task's basis, apart from its sentences for a judge.

        Args:
            task: as `describe` gives it.
            messages: after the task's own, in the form of tau²-bench.
        """
        read = self._tasks.Task.model_validate(task)
        criteria = read.evaluation_criteria
        if criteria is None:
            return {}
        kinds = {
            "assistant": self._messages.AssistantMessage,
            "user": self._messages.UserMessage,
            "tool": self._messages.ToolMessage,
        }
        history = (read.initial_state and read.initial_state.message_history) or []
        trajectory = [*history, *(kinds[message["role"]].model_validate(message) for message in messages)]
        environment, action, communicate = self._evaluators()
        of_state = environment.EnvironmentEvaluator.calculate_reward(
            environment_constructor=self._module.get_environment,
            task=read,
            full_trajectory=trajectory,
            strict_replay=False,
        )
        own = {
            "ACTION": action.ActionEvaluator.calculate_reward(task=read, full_trajectory=trajectory).reward,
            "COMMUNICATE": communicate.CommunicateEvaluator.calculate_reward(
                task=read, full_trajectory=trajectory
            ).reward,
        }
        of_parts = of_state.reward_breakdown or {}
        basis = [part.value for part in criteria.reward_basis]
        return {part: own.get(part, of_parts.get(part, of_state.reward)) for part in basis if part != "NL_ASSERTION"}

    def _evaluators(self) -> list[Any]:
        return [
            importlib.import_module(f"tau2.evaluator.evaluator_{name}") for name in ("env", "action", "communicate")
        ]


def _serve(connection: socket.socket, domain: "Domain | str") -> None:
    with connection.makefile("rwb") as lines:
        for line in lines:
            signal.alarm(_SECONDS_PER_CALL)
            try:
                if isinstance(domain, str):
                    raise ImportError(domain)
                method, arguments = json.loads(line)
                answer = {"value": getattr(domain, method)(**arguments)}
            except Exception as error:  # noqa: BLE001 - the caller raises it
                answer = {"problem": f"{type(error).__name__}: {error}", "is_import": isinstance(error, ImportError)}
            signal.alarm(0)
            lines.write(json.dumps(answer).encode() + b"\n")
            lines.flush()


def main(control: int, checkout: str, name: str) -> None:
    """Serve each socket that comes, until the control socket is closed."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    sockets = socket.socket(fileno=control)
    domain: Domain | str
    try:
        domain = Domain(checkout, name)
    except Exception as error:  # noqa: BLE001 - the first caller raises it
        domain = f"{type(error).__name__}: {error}"
    while True:
        _, descriptors, _, _ = socket.recv_fds(sockets, 1, 1)
        if not descriptors:
            return
        if os.fork() == 0:
            sockets.close()
            _serve(socket.socket(fileno=descriptors[0]), domain)
            os._exit(0)
        os.close(descriptors[0])


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
