"""What flow runs on a worker may load: only code that the operator of the worker allowed."""

from gage_eval.config.settings import load_settings
from gage_eval.extend.allowed_code import allow_only


def load_only_what_is_allowed() -> None:
    """From now on, load in this process only the code of others that GAGE_EVAL_PLUGINS lists; none unless it is set.

    Without this, all users of the server could run any code on the worker.

    Raises:
        InputError: a setting of the environment is wrong.
    """
    allow_only((load_settings().plugins or "").split(","))
