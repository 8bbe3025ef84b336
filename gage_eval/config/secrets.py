"""Secrets stay out of configs: a field named like one holds ``env:NAME`` or ``block:name[/field]``.

`literals` finds literal secrets, and `scrub` removes secrets from anything that is written. Neither shows a value that
may be a secret. Names decide: words such as ``password`` or ``api_key`` everywhere; and in the settings of backends,
sinks and hubs, every name that ends in key, token, secret or password. Text in the form of a well-known kind of token,
and a URL with a password, are secrets everywhere.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gage_eval.base.errors import InputError
from gage_eval.config.problems import ConfigProblem, Loc
from gage_eval.config.yaml import lines

MASK = "***"

_REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*\Z|block:[\w.-]+(?:/[\w.-]+)*\Z")

_WORD = r"(?:^|[_.-])"
# Names of secrets, everywhere.
_SECRET_NAME = re.compile(
    rf"{_WORD}(?:api_?keys?|access_?keys?|secret_?keys?|private_?keys?|auth_?keys?|subscription_?keys?|account_?keys?"
    r"|(?:api|access|auth|bearer|hf|hub|refresh|id|session|security|sas|personal_access)_?tokens?"
    r"|secrets?|client_?secrets?|passwords?|passwd|passphrases?|pwd|credentials?|(?:proxy_?)?authorization|cookies?)$"
)
# Names of secrets in the settings of a connection.
_SECRET_ENDING = re.compile(rf"{_WORD}(?:key|token|secret|password|passwd|passphrase|credentials?)s?$")
_HARMLESS = re.compile(
    r"(?:^|_)(?:(?:bos|eos|pad|unk|sep|cls|mask|image|video|audio|stop|special|added|extra|think\w*|reasoning|start"
    r"|end|max|min|new|num|n|prompt|completion|total|logit)_?(?:new_|completion_)?tokens?"
    r"|(?:value|sort|cache|label|field|metric|score|answer|primary|foreign|public|response)_?keys?)$"
)
_CONNECTIONS = frozenset({"backends", "backend", "headers", "extra_headers", "sinks", "hub_params", "storage_options"})

# All repetitions are bounded, because scrubbed text may be long and hostile.
KEY_SHAPES = (
    r"\b(?:sk-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|AKIA[0-9A-Z]{16}|xox[abeoprs]-[A-Za-z0-9-]{10,}|AIza[\w-]{30,}|pnu_\w{20,}"
    r"|eyJ[\w-]{8,200}\.eyJ[\w.-]+)"
)
_TOKEN_SHAPE = re.compile(KEY_SHAPES)
_BEARER = re.compile(r"\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_URL_PASSWORD = re.compile(r"\b([a-z][a-z0-9+.-]{0,20}://)[^\s/@:]*:[^\s/@]+@", re.IGNORECASE)
_URL_QUERY = re.compile(
    r"([?&](?:api[_-]?key|key|token|access[_-]?token|secret|password|sig|signature|x-amz-\w+)=)[^&\s#]+",
    re.IGNORECASE,
)


def is_reference(value: Any) -> bool:
    """Whether a value is ``env:NAME`` or ``block:name[/field]``."""
    return isinstance(value, str) and _REFERENCE.match(value) is not None


def is_secret_name(name: str, *, connection: bool = False) -> bool:
    """Whether a field of that name holds a secret.

    Args:
        name: a key, header or environment variable, in any case and with ``-`` or ``_``.
        connection: the field belongs to the settings of a backend, sink or hub.
    """
    plain = _plain_name(name)
    if _HARMLESS.search(plain):
        return False
    return _means_secret(plain) or (connection and _SECRET_ENDING.search(plain) is not None)


def has_token(text: str) -> bool:
    """Whether a text contains a token of a well-known form."""
    return _TOKEN_SHAPE.search(text) is not None


def literals(value: Any, variables: Mapping[Loc, Sequence[str]]) -> list[ConfigProblem]:
    """The locations of secrets in a config, including interpolated ones.

    Args:
        value: the config as plain values, with placeholders replaced.
        variables: names of the replaced variables, by location.
    """
    problems = []
    for loc, text, secret in _walk(value, (), connection=False):
        names = list(variables.get(loc, ()))
        hidden = [name for name in names if is_secret_name(name, connection=True)]
        if hidden or (secret and names):
            name = (hidden or names)[0]
            problems.append(ConfigProblem(loc, (_WRITE_ENV if secret else _ENV_ELSEWHERE).format(name)))
        elif secret and not is_reference(text):
            problems.append(ConfigProblem(loc, _LITERAL))
        elif not secret and isinstance(text, str) and _shapes(text) != text:
            problems.append(ConfigProblem(loc, _IN_TEXT))
    return problems


def holds_literals(text: str) -> bool:
    """Whether the text of a config holds a literal secret. False for what is not YAML."""
    try:
        value = lines.as_written(lines.parse(text, "the text"))
    except InputError:
        return False
    return bool(literals(value, {}))


def scrub(value: Any) -> Any:
    """A value for records and logs: secrets (by name or form) are masked, references are kept.

    Unlike the check of a config, it treats every field as one of a connection: a value that is masked without need
    is better than a key in a log.
    """
    if isinstance(value, str):
        return _shapes(value)
    if isinstance(value, Mapping):
        return {name: _scrub_field(str(name), item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [scrub(item) for item in value]
    return value


_LITERAL = "a config must not contain a literal secret; write env:NAME (or block:NAME)."
_WRITE_ENV = "${{{0}}} would write the secret into records; write env:{0}."
_ENV_ELSEWHERE = "${{{0}}} would write a secret into records; give it as env:{0} to a field that takes a secret."
_IN_TEXT = "this looks like a key or a password; give it as env:NAME to a field that takes a secret."


def _plain_name(name: str) -> str:
    """The last 100 letters of a name in snake_case, from camelCase, header-case or snake_case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name[-100:]).replace("-", "_").replace(" ", "_").lower()


def _means_secret(plain: str) -> bool:
    return plain == "token" or _SECRET_NAME.search(plain) is not None


def _scrub_field(name: str, item: Any) -> Any:
    if not is_secret_name(name, connection=True) or is_reference(item) or not _may_be_secret(item, name):
        return scrub(item)
    return MASK


def _walk(value: Any, loc: Loc, *, connection: bool, secret: bool = False) -> Iterator[tuple[Loc, Any, bool]]:
    """Every scalar with its location and whether its field holds a secret."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            inside = connection or key in _CONNECTIONS
            hidden = secret or is_secret_name(key, connection=connection)
            yield from _walk(item, (*loc, key), connection=inside, secret=hidden)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, (*loc, index), connection=connection, secret=secret)
    elif isinstance(value, int | float) and loc[-1:] == ("token",) and not connection:
        yield loc, value, False  # a slip for ``tokens``, as of limits, which is refused as an unknown key
    else:
        yield loc, value, secret and _may_be_secret(value, *(part for part in loc if isinstance(part, str)))


def _may_be_secret(value: Any, *names: str) -> bool:
    """Whether a value may be a secret: a number only if the name is clear (``password: 1``, not ``some_key: 1``)."""
    if value is None or value == "" or isinstance(value, bool):
        return False
    return not isinstance(value, int | float) or any(_means_secret(_plain_name(name)) for name in names)


def _shapes(text: str) -> str:
    text = _TOKEN_SHAPE.sub(MASK, text)
    text = _BEARER.sub(rf"\1 {MASK}", text)
    text = _URL_PASSWORD.sub(rf"\1{MASK}@", text)
    return _URL_QUERY.sub(rf"\1{MASK}", text)
