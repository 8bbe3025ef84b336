"""tau²-bench's domain `mock`: what its tools do to a database, and its tasks' initial states and checks.

The names, arguments and effects are those of the domain's published tasks and policy; the code is ours.
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

Status = Literal["pending", "completed"]
Actor = Literal["assistant", "user"]
Database = dict[str, Any]


class NoSuchEntry(LookupError):
    """A call names an entry that the database lacks; the message is for the caller."""


def create_task(db: Database, user_id: str, title: str, description: str | None = None) -> dict[str, Any]:
    """Create a task of a user."""
    owner = _entry(db["users"], user_id, "user")
    task_id = f"task_{len(db['tasks']) + 1}"
    task = {"task_id": task_id, "title": title, "description": description, "status": "pending"}
    db["tasks"][task_id] = task
    owner["tasks"].append(task_id)
    return task


def get_users(db: Database) -> list[dict[str, Any]]:
    """All users."""
    return list(db["users"].values())


def update_task_status(db: Database, task_id: str, status: Status) -> dict[str, Any]:
    """Set the status of a task."""
    task: dict[str, Any] = _entry(db["tasks"], task_id, "task")
    task["status"] = status
    return task


def transfer_to_human_agents(db: Database, summary: str) -> str:
    """Transfer the user to a human agent; the database stays as it is."""
    return "Transfer successful"


def check_notifications(db: Database) -> list[dict[str, Any]]:
    """All notifications of the user."""
    return list(db["notifications"].values())


def dismiss_notification(db: Database, notification_id: str) -> str:
    """Mark a notification as read."""
    _entry(db["notifications"], notification_id, "notification")["status"] = "read"
    return f"Notification {notification_id} dismissed"


def _add_notification(db: Database, notification_id: str, message: str, task_id: str | None = None) -> bool:
    added = {"notification_id": notification_id, "message": message, "status": "unread", "task_id": task_id}
    db["notifications"][notification_id] = added
    return True


def _task_has_status(db: Database, task_id: str, expected_status: str) -> bool:
    return bool(db["tasks"][task_id]["status"] == expected_status)


def _has_tasks(db: Database, user_id: str, expected_number: int) -> bool:
    return len(db["users"][user_id]["tasks"]) == expected_number


def _notification_has_status(db: Database, notification_id: str, expected_status: str) -> bool:
    return bool(db["notifications"][notification_id]["status"] == expected_status)


_TOOLS: Mapping[Actor, Mapping[str, Callable[..., Any]]] = {
    "assistant": {
        function.__name__: function
        for function in (create_task, get_users, update_task_status, transfer_to_human_agents)
    },
    "user": {function.__name__: function for function in (check_notifications, dismiss_notification)},
}
_OF_TASKS: Mapping[str, Callable[..., bool]] = {
    "add_notification": _add_notification,
    "assert_task_status": _task_has_status,
    "assert_number_of_tasks": _has_tasks,
    "assert_notification_status": _notification_has_status,
}
_DATA: Mapping[Actor, tuple[str, str]] = {"assistant": ("db", "agent_data"), "user": ("user_db", "user_data")}


def initial_database(task: Mapping[str, Any], actor: Actor) -> Database:
    """The database of a side before a task: the domain's, with the task's data, actions and earlier calls.

    Args:
        task: ``metadata.tau2`` of a sample.
        actor: whose database.
    """
    source, data = _DATA[actor]
    db: Database = copy.deepcopy(task[source])
    initial = task.get("initial_state") or {}
    _merge(db, (initial.get("initialization_data") or {}).get(data) or {})
    for action in initial.get("initialization_actions") or ():
        if action["env_type"] == actor and not holds(db, action["func_name"], action["arguments"]):
            call(db, actor, action["func_name"], action["arguments"])
    for name, arguments in earlier_calls(task, actor):
        call(db, actor, name, arguments)
    return db


def earlier_calls(task: Mapping[str, Any], actor: Actor) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """The calls in a task's message history."""
    return [
        (made["name"], made["arguments"])
        for message in (task.get("initial_state") or {}).get("message_history") or ()
        if message["role"] == actor
        for made in message.get("tool_calls") or ()
    ]


def call(db: Database, actor: Actor, name: str, arguments: Mapping[str, Any]) -> None:
    """Make a call of a side's tool; one that cannot be made changes nothing."""
    function = _TOOLS[actor].get(name)
    if function is not None and arguments.get("status", "completed") in ("pending", "completed"):
        try:
            function(db, **arguments)
        except (NoSuchEntry, TypeError):
            return


def holds(db: Database, name: str, arguments: Mapping[str, Any]) -> bool:
    """Whether a check of a task holds; of its other actions, whether it was carried out."""
    function = _OF_TASKS.get(name)
    try:
        return function is not None and function(db, **arguments)
    except (KeyError, TypeError):
        return False


def _entry(entries: Mapping[str, Any], name: str, what: str) -> Any:
    if name not in entries:
        raise NoSuchEntry(f"{what} {name} not found")
    return entries[name]


def _merge(into: Database, data: Mapping[str, Any]) -> None:
    for key, value in data.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = copy.deepcopy(value)
