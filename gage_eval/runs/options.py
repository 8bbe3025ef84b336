"""What a run is asked, apart from the config itself."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from gage_eval.config.load import LoadedConfig, load_config, parse_config
from gage_eval.config.templates import load_suite, suite_path
from gage_eval.errors import InputError, closest
from gage_eval.files import local_path
from gage_eval.marks import STAGES, identity, scheduling, semantic
from gage_eval.store import check_url

SUITE_PREFIX = "suite:"


class RunOptions(BaseModel):
    """Options of a run, as the command line, the Python API and the flows take them.

    They are kept in run.json, so that `gage resume` and a retry in the Prefect UI do the same again.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    config: str = identity("load", description="Path of a config file, or suite:NAME for a built-in suite.")
    text: str | None = identity(
        "load", None, description="The config itself as YAML; its relative paths start from the folder `config`."
    )
    store: str | None = scheduling(None, description="Where artifacts live: a folder or s3://bucket/prefix.")
    output_dir: str | None = scheduling(None, description="Where run folders live; <store>/runs by default.")
    run_id: str | None = scheduling(None, description="Name of the run; a fresh one by default.")
    concurrency: int | None = scheduling(None, ge=1, description="Requests in flight, for every endpoint.")
    max_samples: int | None = semantic("load", None, ge=1, description="At most this many rows of each dataset.")
    sample_ids: tuple[str, ...] = semantic("preprocess", (), description="Only these samples.")
    model_path: str | None = identity("infer", None, description="Path of the checkpoint, for engines that load one.")
    overrides: tuple[str, ...] = semantic("load", (), description="Changes of the config as path=value.")
    refresh: tuple[str, ...] = scheduling(
        (), description=f"Stages to compute again although they are stored: {', '.join(STAGES)}."
    )
    resume: bool = scheduling(default=False, description="Go on with the run of that id.")
    only_errors: bool = scheduling(default=False, description="Ask again only for rows that ended in an error.")

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> "RunOptions":
        """Options from a flow's parameters, where a list left out is None.

        Raises:
            InputError: a value does not fit.
        """
        given = {name: value for name, value in parameters.items() if value is not None}
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            problem = error.errors()[0]
            raise InputError(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}.") from error

    def recorded(self) -> dict[str, Any]:
        """The options as run.json keeps them, locations made absolute: a run is resumed from any folder."""
        kept = self.model_dump(mode="json", exclude={"resume", "only_errors", "run_id"})
        if not self.config.startswith(SUITE_PREFIX):
            kept["config"] = str(Path(self.config).resolve())
        for name in ("store", "output_dir"):
            if kept[name] is not None and "://" not in kept[name]:
                kept[name] = str(local_path(kept[name], Path()).absolute())
        return kept

    @property
    def base_dir(self) -> Path:
        """The folder that relative paths of the config start from."""
        if self.text is not None:
            return Path(self.config)
        if self.config.startswith(SUITE_PREFIX):
            return suite_path(self.config.removeprefix(SUITE_PREFIX)).parent
        return Path(self.config).parent


@dataclass(frozen=True)
class Locations:
    """Where artifacts and run folders live. The command line beats the environment beats the default."""

    store: str
    runs: str

    @classmethod
    def at(cls, store: str | None = None, output_dir: str | None = None) -> "Locations":
        """The locations that options and environment name.

        Raises:
            InputError: the store's URL cannot name a store.
        """
        from gage_eval.settings import load_settings

        settings = load_settings()
        url = store or settings.store
        runs = output_dir or settings.save_dir or own_root(url)
        for place in (url, runs):
            check_url(place)
        return cls(url, runs)

    def again(self, run_id: str) -> str:
        """The command that resumes a run of these locations."""
        return self.command("resume", run_id)

    def command(self, *words: str) -> str:
        """A ``gage`` command about these locations, with the options that lead there from here."""
        said = ["gage", *words]
        reached = Locations.at()
        if self.store != reached.store:
            said += ["--store", self.store]
            reached = Locations.at(self.store)
        if self.runs != reached.runs:
            said += ["--output-dir", self.runs]
        return shlex.join(said)


def own_root(store: str) -> str:
    """The runs root that lies in a store, where no other is given."""
    return f"{store.rstrip('/')}/runs"


def load(options: RunOptions, source: str | None = None) -> LoadedConfig:
    """The config the options name, with their changes and the environment's settings written into it.

    Args:
        options: what is asked.
        source: how a config that the options hold as text is called in an error.

    Raises:
        InputError: no such file or suite, it has problems, or a stage to refresh is none.
    """
    from gage_eval.settings import load_settings

    unknown = [stage for stage in options.refresh if stage not in STAGES]
    if unknown:
        raise InputError(
            f"--refresh {unknown[0]}: no such stage. Stages: {', '.join(STAGES)}.{closest(unknown[0], STAGES)}"
        )
    changes: dict[str, Any] = {
        "overrides": options.overrides,
        "max_samples": options.max_samples,
        "model_path": options.model_path,
        "settings": load_settings().given(),
    }
    if options.text is not None:
        return parse_config(options.text, source=source or "config", base_dir=options.base_dir, **changes)
    if options.config.startswith(SUITE_PREFIX):
        return load_suite(options.config.removeprefix(SUITE_PREFIX), **changes)
    return load_config(options.config, **changes)
