"""Tasks of tau²-bench with the database and the policy of their domain."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from gage_eval.base import canonical
from gage_eval.base.canonical import JsonValue, canonical_text
from gage_eval.base.errors import InputError
from gage_eval.data import tau2_checkout
from gage_eval.data.datasets.base import Record, check_params, no_media, record_text, text_param
from gage_eval.data.datasets.json_file import JsonLoader
from gage_eval.data.datasets.reading import content_hash, document_of, find_files
from gage_eval.extend import registry
from gage_eval.store.media import Keep

_FILES = ("db_path", "policy_path", "user_db_path")
_ROLE = "You are a customer service agent. Help the user, and keep to this policy."
_GREETING = "Hi! How can I help you today?"


@registry.loaders.register("tau2", version=1, params=_FILES)
class Tau2Loader(JsonLoader):
    """Tasks of tau²-bench as samples: the policy and the earlier messages, and all else under ``metadata.tau2``.

    Of the domain `mock`, whose tools are `tau2_mock` and `tau2_mock_user`.

    Parameters (``params``):
        path: the domain's ``tasks.json``.
        db_path: its ``db.json``.
        policy_path: its ``policy.md``.
        user_db_path: its ``user_db.json``.

    Raises:
        InputError: a parameter is missing, a file is not there, or the domain is another one.
    """

    def __init__(self, params: Mapping[str, Any], base_dir: Path) -> None:
        missing = [name for name in _FILES if not isinstance(params.get(name), str)]
        if missing:
            raise InputError(f"loader tau2 needs params.{missing[0]}, a file of the domain mock.")
        super().__init__({name: value for name, value in params.items() if name not in _FILES}, base_dir)
        self._named = {name: find_files(params[name], base_dir)[0] for name in _FILES}

    def identity(self) -> JsonValue:
        """sha256 of the tasks, databases and policy."""
        own = super().identity()
        return {"tasks": own, **{name: content_hash(file) for name, file in self._named.items()}}

    def records(self, keep: Keep = no_media) -> Iterator[Record]:
        """(position from 1, sample) of each task."""
        policy, db, user_db = self._bytes("policy_path"), self._json("db_path"), self._json("user_db_path")
        if not isinstance(db, dict) or db.keys() != {"tasks", "users"} or not isinstance(user_db, dict):
            raise InputError(
                "loader tau2: db_path does not hold the database of the domain mock. Other domains have the loader "
                "tau2_domain."
            )
        try:
            rules = policy.decode()
        except UnicodeDecodeError:
            raise InputError(f"'{Path(self._named['policy_path']).name}' is not UTF-8.") from None
        databases = {"db": db, "user_db": user_db}
        for position, text in super().records():
            task = canonical.decode(text)
            try:
                yield position, record_text(_sample(task, rules, databases)) if isinstance(task, dict) else text
            except (AttributeError, KeyError, TypeError, ValueError):
                raise InputError(f"loader tau2: task {position} is not of the form of tau2-bench.") from None

    def _bytes(self, name: str) -> bytes:
        return document_of(self._named[name], Path(self._named[name]).name)

    def _json(self, name: str) -> JsonValue:
        try:
            return canonical.decode(self._bytes(name))
        except ValueError as error:
            raise InputError(f"'{Path(self._named[name]).name}' is not JSON: {error}.") from None


@registry.loaders.register("tau2_domain", version=1, params=("domain", "split", "sha256"))
class Tau2DomainLoader:
    """Tasks of a domain of tau²-bench, from the checkout that ``GAGE_EVAL_TAU2`` names, as samples.

    The domain's tools are `tau2_airline`, `tau2_retail`, `tau2_telecom` and `tau2_telecom_user`.

    Parameters (``params``):
        domain: airline, retail or telecom.
        split: of its tasks; ``base`` unless given.
        sha256: of the checkout's code and the domain's data; any unless given.

    Raises:
        InputError: a parameter is wrong, or there is no checkout, another one, or one that does not run.
    """

    def __init__(self, params: Mapping[str, Any], base_dir: Path) -> None:
        check_params(params, ("domain", "split", "sha256"), "tau2_domain")
        self._domain = text_param(params, "domain", "tau2_domain") or ""
        self._split = text_param(params, "split", "tau2_domain") or "base"
        domains = get_args(tau2_checkout.Domain)
        if self._domain not in domains:
            raise InputError(f"loader tau2_domain: params.domain is {', '.join(domains[:-1])} or {domains[-1]}.")
        self._code = tau2_checkout.identity(self._domain)
        if params.get("sha256", self._code) != self._code:
            raise InputError(
                f"loader tau2_domain: code and data of {self._domain} in {tau2_checkout.checkout()} have the sha256 "
                f"{self._code}, and params.sha256 is another one."
            )

    def identity(self) -> JsonValue:
        """The split, and the hash of code and data."""
        return {"domain": self._domain, "split": self._split, "code": self._code}

    def records(self) -> Iterator[Record]:
        """(position from 1, sample) of each task."""
        described = tau2_checkout.described(self._domain, self._split)
        more = {"checkout": {"domain": self._domain, "code": self._code}}
        for position, task in enumerate(described["tasks"], 1):
            yield position, record_text(_sample(task, described["policy"], more))


def _sample(task: dict[str, Any], policy: str, more: Mapping[str, JsonValue]) -> dict[str, Any]:
    initial = task.get("initial_state") or {}
    history = initial.get("message_history")
    messages = [_message(message) for message in history or [{"role": "assistant", "content": _GREETING}]]
    return {
        "id": str(task.get("id")),
        "messages": [{"role": "system", "content": f"{_ROLE}\n\n{policy}"}, *messages],
        "references": [],
        "metadata": {"tau2": {**task, **more}},
    }


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message of a task in OpenAI's form."""
    made = message.get("tool_calls") or ()
    calls = [
        {
            "id": call["id"],
            "type": "function",
            "function": {"name": call["name"], "arguments": canonical_text(call["arguments"])},
        }
        for call in made
    ]
    plain: dict[str, Any] = {"role": message["role"], "content": message.get("content") or ""}
    if calls:
        plain["tool_calls"] = calls
    return {**plain, "tool_call_id": message["id"]} if message["role"] == "tool" else plain
