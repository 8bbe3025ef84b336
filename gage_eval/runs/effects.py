"""What the config of a run would import, start and send."""

from gage_eval.config.effects import ConfigAudit, audit
from gage_eval.config.files import read_config
from gage_eval.config.settings import load_settings
from gage_eval.models.backends.base import Blocks
from gage_eval.runs.options import RunOptions


def examined(options: RunOptions, *, blocks: Blocks | None = None) -> ConfigAudit:
    """Check an untrusted config: nothing that it names is imported, started or called.

    Args:
        options: the config.
        blocks: the blocks of the Prefect API, if they may be read.

    Raises:
        ConfigError: the config has so many mistakes that its effects are unknown.
        InputError: it cannot be read.
    """
    text, source, folder = options.text, "config", options.base_dir
    if text is None:
        text, source = read_config(options.file), str(options.file)
    return audit(
        text,
        source,
        folder,
        blocks=blocks,
        overrides=options.overrides,
        model_path=options.model_path,
        freshness=options.freshness,
        models=options.choice,
        settings=load_settings().values_set(),
    )
