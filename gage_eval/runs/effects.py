"""What the config of a run would import, start and send."""

from pathlib import Path

from gage_eval.base.canonical import sha256_hex
from gage_eval.base.errors import InputError
from gage_eval.config.effects import ConfigAudit, audit
from gage_eval.config.files import read_config
from gage_eval.config.settings import load_settings
from gage_eval.extend.loading import code_files
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


def own_code(options: RunOptions, folder: Path) -> frozenset[str]:
    """What allows the code that a config names in files, for `allow_only`. Nothing is imported.

    Args:
        options: of a run with that config and nothing else.
        folder: where the files must be.

    Returns:
        Nothing for a config that names code elsewhere, or that cannot be used.
    """
    try:
        audit = examined(options)
        named = {(options.base_dir / file.name).resolve() for file in audit.files if file.kind == "code"}
        here = [file for file in named if file.is_file()]
        files = {code for file in here for code in (code_files(file) if file.suffix == ".py" else [file])}
        if not all(file.is_relative_to(folder.resolve()) for file in named | files):
            return frozenset()
        return frozenset((*audit.engines, *(f"sha256:{sha256_hex(file.read_bytes())}" for file in files)))
    except (InputError, OSError):
        return frozenset()
