"""The options of a run, other than the config itself."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotated_types import Ge
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from gage_eval.base.errors import InputError, closest
from gage_eval.base.files import local_path
from gage_eval.base.marks import identity, scheduling, semantic
from gage_eval.base.stages import STAGES, Stage
from gage_eval.runs.fetching import data_cache
from gage_eval.runs.options_dict import LEAST, TEXTS
from gage_eval.runs.stored_pins import stored_pins
from gage_eval.runs.unpacked import unpacked

if TYPE_CHECKING:
    from gage_eval.config.load import LoadedConfig
    from gage_eval.config.model_choice import ModelChoice
    from gage_eval.models.backends.base import BackendContext

SUITE_PREFIX = "suite:"
# What a store starts with that a Prefect block names.
BLOCK_PREFIX = "block:"
# What a config starts with that lies in the store, with the files it names (`gage_eval.store.bundles`).
BUNDLE_PREFIX = "bundle:"


def suite_of(config: str) -> tuple[str, str | None]:
    """(name, version or None for the newest) of ``suite:NAME`` or ``suite:NAME@vN``."""
    name, _, version = config.removeprefix(SUITE_PREFIX).partition("@")
    return name, version or None


def bundle_of(config: str) -> str | None:
    """The name of the bundle of ``bundle:NAME``; None for other configs."""
    return config.removeprefix(BUNDLE_PREFIX) if config.startswith(BUNDLE_PREFIX) else None


class _Options(BaseModel):
    """Fields with the texts and limits of `gage_eval.runs.options_dict`."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), defer_build=True)

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        for name in cls.__annotations__:
            field = cls.model_fields[name]
            field.description = TEXTS[name]
            if name in LEAST:
                field.metadata.append(Ge(LEAST[name]))


class ModelOptions(_Options):
    """The models to run, for a suite or in place of those of the config."""

    model: str | None = identity("infer", None)
    endpoint: str | None = identity("infer", None)
    engine: str | None = identity("infer", None)
    api_key_env: str | None = scheduling(None)
    api_key_block: str | None = scheduling(None)
    model_block: str | None = identity("infer", None)
    judges: tuple[str, ...] = identity("judge", ())
    judge_endpoint: str | None = identity("judge", None)
    judge_api_key_env: str | None = scheduling(None)
    judge_api_key_block: str | None = scheduling(None)


class RunOptions(ModelOptions):
    """All options of a run, with their defaults and checks. `RunOptionsDict` has their texts.

    They are stored in run.json, so that `gage resume` and a retry in the Prefect UI use the same options.
    """

    config: str = identity("load")
    text: str | None = identity("load", None)
    run_id: str | None = scheduling(None)
    store: str | None = scheduling(None)
    output_dir: str | None = scheduling(None)
    max_samples: int | None = semantic("load", None)
    quick: int | None = semantic("preprocess", None)
    shuffle_seed: int | None = semantic("load", None)
    task_ids: tuple[str, ...] = scheduling(())
    sample_ids: tuple[str, ...] = semantic("preprocess", ())
    data_dir: str | None = scheduling(None)
    model_path: str | None = identity("infer", None)
    freshness: str | None = semantic("infer", None)
    overrides: tuple[str, ...] = semantic("load", ())
    concurrency: int | None = scheduling(None)
    refresh: tuple[Stage, ...] = scheduling(())
    verify: bool = scheduling(default=False)
    resume: bool = scheduling(default=False)
    only_errors: bool = scheduling(default=False)
    judge_only: bool = scheduling(default=False)
    work_pool: str | None = scheduling(None)

    @field_validator("refresh", mode="before")
    @classmethod
    def _stages(cls, value: Any) -> Any:
        for name in value if isinstance(value, list | tuple) else ():
            if isinstance(name, str) and name not in STAGES:
                known = ", ".join(STAGES)
                raise PydanticCustomError(
                    "stage", "no stage '{name}'. Stages: {known}.{hint}",
                    {"name": name, "known": known, "hint": closest(name, STAGES)},
                )  # fmt: skip
        return value

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> "RunOptions":
        """Options by name; None means that the option was not given.

        Raises:
            InputError: a value does not fit.
        """
        values = {name: value for name, value in parameters.items() if value is not None}
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            from gage_eval.config.problems import path_text
            from gage_eval.config.validation_messages import plain_words

            wrong = plain_words(error, values, cls)[0]
            raise InputError(f"{path_text(wrong.loc)}: {wrong.message}") from error

    def recorded(self) -> dict[str, Any]:
        """The options for run.json, with absolute locations, so that a run can be resumed from any folder."""
        kept = self.model_dump(mode="json", exclude={"resume", "only_errors", "judge_only", "run_id"})
        if self.config.startswith(SUITE_PREFIX):
            # A resumed run keeps its version, whatever versions have come since.
            kept["config"] = f"{SUITE_PREFIX}{self.file.parent.name}@{self.file.stem}"
        elif bundle_of(self.config) is None:
            kept["config"] = str(Path(self.config).resolve())
        for name in ("store", "output_dir", "data_dir"):
            if kept[name] is not None and "://" not in kept[name]:
                kept[name] = str(local_path(kept[name], Path()).absolute())
        return kept

    @property
    def choice(self) -> "ModelChoice":
        """The models that the options name."""
        from gage_eval.config.model_choice import ModelChoice

        return ModelChoice(**{name: getattr(self, name) for name in ModelOptions.model_fields})

    @property
    def base_dir(self) -> Path:
        """The folder that relative paths of the config start from."""
        return Path(self.config) if self.text is not None else self.file.parent

    @property
    def file(self) -> Path:
        """The file of the config. Files of a bundle are written to this machine.

        Raises:
            InputError: there is no such suite, or the store has no such bundle.
        """
        if (bundle := bundle_of(self.config)) is not None:
            return unpacked(Locations.at(self.store).store, bundle)
        if self.config.startswith(SUITE_PREFIX):
            from gage_eval.config.suites.template_places import suite_file

            return suite_file(*suite_of(self.config))
        return Path(self.config)


@dataclass(frozen=True)
class Locations:
    """Where artifacts and run folders are stored: as the command line says, else the environment, else the default."""

    store: str
    runs: str

    @classmethod
    def at(cls, store: str | None = None, output_dir: str | None = None) -> "Locations":
        """The locations that options and environment name.

        Raises:
            InputError: the store's URL cannot name a store.
        """
        from gage_eval.config.settings import load_settings
        from gage_eval.store import check_url

        settings = load_settings()
        url = store or settings.store
        runs = output_dir or settings.save_dir or own_root(url)
        for root in (url, runs):
            check_url(root)
        return cls(url, runs)

    def placed(self, options: RunOptions) -> RunOptions:
        """The options of a run in these locations."""
        return options.model_copy(update={"store": self.store, "output_dir": self.runs})

    def again(self, run_id: str) -> str:
        """The command that resumes a run in these locations."""
        return self.command("resume", run_id)

    def command(self, *words: str) -> str:
        """A ``gage`` command with the options for these locations, where they differ from the current defaults."""
        command = ["gage", *words]
        reached = Locations.at()
        if self.store != reached.store:
            command += ["--store", self.store]
            reached = Locations.at(self.store)
        if self.runs != reached.runs:
            command += ["--output-dir", self.runs]
        return shlex.join(command)


def own_root(store: str) -> str:
    """The default runs root of a store."""
    return f"{store.rstrip('/')}/runs"


def load(
    options: RunOptions,
    source: str | None = None,
    context: "BackendContext | None" = None,
    *,
    with_data: bool = False,
) -> "LoadedConfig":
    """Load the config of some options, with their changes and the settings of the environment.

    Args:
        options: what is asked.
        source: the name in errors of a config that is given as text.
        context: what backends are built with.
        with_data: to the problems of a wrong file belong data files that are not on this machine.

    Raises:
        InputError: no such file or suite, or it has problems.
    """
    from gage_eval.config.files import read_config
    from gage_eval.config.load import load_config, parse_config
    from gage_eval.config.overrides import Changes
    from gage_eval.config.settings import load_settings, unknown_variables
    from gage_eval.config.suites.templates import load_suite

    changes: Changes = {
        "overrides": options.overrides,
        "max_samples": options.max_samples,
        "shuffle_seed": options.shuffle_seed,
        "model_path": options.model_path,
        "freshness": options.freshness,
        "models": options.choice,
        "pins": partial(stored_pins, Locations.at(options.store, options.output_dir).store),
        "settings": load_settings().values_set(),
    }
    if options.text is not None:
        here = options.base_dir
        loaded = parse_config(options.text, source=source or "config", base_dir=here, context=context, **changes)
    elif options.config.startswith(SUITE_PREFIX):
        loaded = load_suite(*suite_of(options.config), context=context, **changes)
    elif bundle_of(options.config) is not None:
        file = options.file
        loaded = parse_config(read_config(file), source=file.name, base_dir=file.parent, context=context, **changes)
    else:
        loaded = load_config(options.config, context=context, with_data=with_data, **changes)
    # A copy in the user's folder counts by the hashes of its files.
    data = data_cache(options.data_dir)
    built = {source.hub for dataset in loaded.config.datasets for source in dataset.built_from}
    moving = tuple(name for name in loaded.unpinned if name in built or data.hub_copy(name) is None)
    notes = [
        f"the data '{name}' of the Hugging Face hub have no fixed commit, so that no score of them can become a "
        f"baseline. Fix it: gage pin {loaded.config.metadata.name or options.config}"
        for name in moving
    ]
    return replace(loaded, unpinned=moving, warnings=(*loaded.warnings, *notes, *unknown_variables()))
