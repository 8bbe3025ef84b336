"""The tools of tau²-bench's domain `mock`, of the agent and of the user, for samples of the loader `tau2`."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from gage_eval.data import tau2_mock as domain
from gage_eval.extend import registry
from gage_eval.models.client.tools import ToolError

T = TypeVar("T")


@registry.tools.register("tau2_mock")
class Tau2Mock:
    """The agent's tools."""

    def __init__(self, sample: Mapping[str, Any]) -> None:
        self._db = domain.initial_database(sample["metadata"]["tau2"], "assistant")

    def create_task(self, user_id: str, title: str, description: str | None = None) -> dict[str, Any]:
        """Create a task of a user."""
        return _told(domain.create_task, self._db, user_id, title, description)

    def get_users(self) -> list[dict[str, Any]]:
        """All users."""
        return domain.get_users(self._db)

    def update_task_status(self, task_id: str, status: domain.Status) -> dict[str, Any]:
        """Set the status of a task."""
        return _told(domain.update_task_status, self._db, task_id, status)

    def transfer_to_human_agents(self, summary: str) -> str:
        """Transfer the user to a human agent, with a summary of what the user needs.

        Only if the user asks for it, or the policy and the tools allow no solution.
        """
        return domain.transfer_to_human_agents(self._db, summary)


@registry.tools.register("tau2_mock_user")
class Tau2MockUser:
    """The user's tools."""

    def __init__(self, sample: Mapping[str, Any]) -> None:
        self._db = domain.initial_database(sample["metadata"]["tau2"], "user")

    def check_notifications(self) -> list[dict[str, Any]]:
        """All your notifications."""
        return domain.check_notifications(self._db)

    def dismiss_notification(self, notification_id: str) -> str:
        """Mark a notification as read."""
        return _told(domain.dismiss_notification, self._db, notification_id)


def _told(function: Callable[..., T], *arguments: Any) -> T:
    """What a function returns; an error for the model where it names something unknown."""
    try:
        return function(*arguments)
    except domain.NoSuchEntry as error:
        raise ToolError(str(error)) from None
