"""What an untrusted config would run, read, start and send. Nothing that it names is imported."""

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, Unpack, get_args

from gage_eval.base.errors import InputError, Problem
from gage_eval.base.files import folder_of, is_folder, local_path
from gage_eval.config import secrets
from gage_eval.config.data_origins import load_origin
from gage_eval.config.document import Document, Origin, leaves
from gage_eval.config.execution import BOX_TOOLS, BoxConfig, ExecutionConfig, McpServerConfig
from gage_eval.config.files import read_beside
from gage_eval.config.load import origins_of, read_document, resolve_document
from gage_eval.config.models import DatasetConfig, DatasetParams, InlineBackend, PipelineConfig
from gage_eval.config.overrides import Changes
from gage_eval.config.plugin_paths import NamedCode, code_of
from gage_eval.config.problems import Loc, path_text
from gage_eval.config.validation_messages import as_written
from gage_eval.config.yaml import lines
from gage_eval.extend import registry
from gage_eval.extend.allowed_code import engine_entry
from gage_eval.extend.loading import is_path, nothing_imported
from gage_eval.models.backends.base import BackendConfig, BackendContext, Blocks
from gage_eval.models.backends.build import config_model
from gage_eval.scoring.harness.reads import CODE, FILE
from gage_eval.scoring.harness.sources import Sources, SourcesChanged

Act: TypeAlias = Literal["run", "start", "send", "fetch", "read"]
FileKind: TypeAlias = Literal["config", "code", "data", "model", "program"]
ACTS: tuple[Act, ...] = get_args(Act)

_ENGINES = frozenset({"transformers", "vlm_transformers", "vllm", "vllm_native", "llama_cpp", "custom_script"})
# Fields of backends that name a file or folder, or a model on the hub.
_FILES = ("path", "model_path", "lora_path")
_HUB = "the Hugging Face hub (HF_TOKEN, if it is set)"
_LONGEST_NAME = 255
# The keys of a scoring profile that name metrics, aggregations and filters.
_NAMES_CODE = frozenset({"type", "aggregation", "filters"})
# What stands for the name of a data file in the path of its image.
_STEM = "{stem}"
# What makes a run fetch media, where records name addresses.
_DECODED_BY = (
    *("audio_rate", "video_frames", "video_fps", "pdf"),
    *("image_min_pixels", "image_max_pixels", "image_factor"),
)


@dataclass(frozen=True)
class Effect:
    """One effect of running a config.

    Attributes:
        act: ``run`` code, ``read`` files, ``start`` a process, ``send`` requests, ``fetch`` data or a model.
        what: the code, the absolute place of the files, the executable, or the URL.
        path: where in the config, such as ``backends[0].config``.
        note: more information, such as the environment variables whose values are sent; may be empty.
    """

    act: Act
    what: str
    path: str
    note: str = ""


@dataclass(frozen=True)
class NamedFile:
    """A file, a folder or a pattern that a config names.

    Attributes:
        name: its path as the config writes it.
        path: where in the config; empty for a file that the config was put together from.
        kind: what it is.
    """

    name: str
    path: str
    kind: FileKind


@dataclass(frozen=True)
class ConfigAudit:
    """A config that was read, without importing or starting what it names.

    Attributes:
        source: the file, as given.
        problems: the mistakes that can be found without importing plug-ins.
        warnings: things that work but are probably not intended.
        effects: what a run would do.
        variables: the environment variables that are used, by location in the config.
        origins: where each value came from, by path.
        files: the files that the config names.
        secrets: the references to secrets that it holds, as ``env:NAME``.
        engines: what allows the engines that it starts with code of others (`engine_entry`).
    """

    source: str
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]
    effects: tuple[Effect, ...]
    variables: Mapping[str, Sequence[str]]
    origins: Mapping[str, Origin]
    files: tuple[NamedFile, ...]
    secrets: tuple[str, ...]
    engines: tuple[str, ...]


def audit(
    text: str, source: str, folder: Path, *, blocks: Blocks | None = None, **changes: Unpack[Changes]
) -> ConfigAudit:
    """Check a config without importing or starting anything that it names.

    Args:
        text: the config.
        source: the config's name in messages.
        folder: the folder that relative paths start from.
        blocks: the blocks of the Prefect API; without them, no network is used.
        changes: what differs from the text.

    Raises:
        ConfigError: the config has so many mistakes that its effects are unknown.
    """
    with nothing_imported():
        document, config = read_document(text, source, folder, blocks=blocks, **changes)
        here, named = code_of(config, folder)
        resolve_document(document, here, replace(BackendContext(), base_dir=folder, built={}))
        lister = _Lister(document, folder)
        lister.code(named)
        lister.config(config)
        problems = tuple(sorted(document.problems, key=lambda problem: problem.line or 0))
    return ConfigAudit(
        source=source,
        problems=problems,
        warnings=tuple(dict.fromkeys(document.warnings)),
        effects=tuple(sorted(dict.fromkeys(lister.effects), key=lambda effect: ACTS.index(effect.act))),
        variables={path_text(loc): names for loc, names in document.variables.items()},
        origins=origins_of(config, document),
        files=(
            *(NamedFile(str(file), "", "config") for file in document.files),
            *dict.fromkeys(lister.files),
        ),
        secrets=tuple(dict.fromkeys(text for _, text in _references(config.model_dump(mode="json")))),
        engines=tuple(lister.engines),
    )


@dataclass
class _Lister:
    document: Document
    folder: Path
    effects: list[Effect] = field(default_factory=list)
    files: list[NamedFile] = field(default_factory=list)
    engines: list[str] = field(default_factory=list)

    def named(self, name: str, loc: Loc, kind: FileKind) -> None:
        """Note a file that the config names."""
        self.files.append(NamedFile(name, path_text(as_written(loc, self.document.data)), kind))

    def named_code(self, name: str, loc: Loc) -> None:
        """Note a plug-in: ``file.py:NAME``, a module next to the config, or a task of the lm-eval harness."""
        if name == FILE:
            self.named(name, loc, "data")
            with suppress(SourcesChanged):
                for own in Sources.of(self.folder).own():
                    self.named(own, loc, "code" if own.endswith(CODE) else "data")
            return
        file, colon, _ = name.rpartition(":")
        if colon and file.endswith(".py"):
            self.named(file, loc, "code")
        elif is_path(name):
            top = name.replace(":", ".").partition(".")[0]
            for beside in filter(None, (f"{top}.py", top)):
                if os.path.exists(self.folder / beside):
                    self.named(beside, loc, "code")

    def add(self, act: Act, what: str, loc: Loc, note: str = "") -> None:
        self.effects.append(Effect(act, what, path_text(as_written(loc, self.document.data)), note))

    def code(self, named: Sequence[NamedCode]) -> None:
        """Add every plug-in that is not part of this package."""
        for reference in named:
            self.named_code(reference.written, reference.loc)
            origin = reference.name if reference.kind is None else registry.ALL[reference.kind].origin(reference.name)
            if origin is not None and origin != "builtin":
                self.add("run", origin, reference.loc, _missing(origin))

    def config(self, config: PipelineConfig) -> None:
        for at, dataset in enumerate(config.datasets):
            self.dataset(("datasets", at), dataset)
        for at, backend in enumerate(config.backends):
            self.backend(("backends", at), backend)
        for at, adapter in enumerate(config.role_adapters):
            if adapter.backend is not None:
                self.backend(("role_adapters", at, "backend"), adapter.backend)
            if adapter.agent is not None:
                here = ("role_adapters", at, "agent")
                self.boxed(f"the program {' '.join(adapter.agent.command)}", here, adapter.box or BoxConfig())
                for path, file in adapter.agent.files.items():
                    self.file(file, (*here, "files", path))
            for number, server in enumerate(adapter.mcp_servers):
                self.mcp_server(("role_adapters", at, "mcp_servers", number), server, adapter.box or BoxConfig())
            if BOX_TOOLS & {*adapter.tools}:
                self.boxed(
                    "the commands that the model writes", ("role_adapters", at, "box"), adapter.box or BoxConfig()
                )
        for at, task in enumerate(config.tasks):
            if task.execution is not None:
                self.boxed("the programs that the model writes", ("tasks", at, "execution"), task.execution)
            if task.scoring_profile is not None and task.scoring_profile.endswith((".yaml", ".yml")):
                loc = ("tasks", at, "scoring_profile")
                self.file(task.scoring_profile, loc)
                for name in _code_of_profile(self.folder / task.scoring_profile):
                    self.named_code(name, loc)
                    self.add("run", name, loc, "code of the scoring profile")
        values = config.model_dump(mode="json")
        self.references(values)
        self.texts(values)

    def mcp_server(self, loc: Loc, server: McpServerConfig, box: BoxConfig) -> None:
        """A command runs in a box, or with the rights of this user; an endpoint gets what the model writes."""
        if server.is_boxed:
            self.boxed(f"the MCP server {shlex.join(server.command)}", (*loc, "command"), box)
            for path, file in server.files.items():
                self.file(file, (*loc, "files", path))
        elif server.url is None:
            self.add("run", shlex.join(server.command), (*loc, "command"), "an MCP server, outside of any box")
        else:
            self.add("send", server.url, (*loc, "url"), "the model's calls of its tools")

    def boxed(self, what: str, loc: Loc, config: BoxConfig | ExecutionConfig) -> None:
        """What runs in boxes."""
        pool = config.work_pool if isinstance(config, ExecutionConfig) else None
        where = "" if pool is None else f" on work pool '{pool}'"
        self.add("run", what, loc, "WITHOUT containment" if config.allow_unsafe else f"in a box{where}")
        for root in config.roots.values():
            self.add("read", root, (*loc, "roots"), "all of it, by these programs")

    def dataset(self, loc: Loc, dataset: DatasetConfig) -> None:
        params = dataset.params
        params_loc: Loc = (*loc, "params")
        if params.allow_outside:
            self.add("read", "/", (*params_loc, "allow_outside"), "any file that its records name as a medium")
        recipe = next((name for name in _DECODED_BY if getattr(params, name) is not None), None)
        if recipe is not None:
            inside = f", also from {', '.join(params.private_media_hosts)}" if params.private_media_hosts else ""
            self.add("fetch", "http(s) addresses", (*params_loc, recipe), f"media that its records name{inside}")
        if params.origin is not None:
            self.origin(params.origin, (*params_loc, "origin"))
            return
        for name, paths in (("path", params.path), *(params.model_extra or {}).items()):
            if (name == "path" or name.endswith("_path")) and name != "records_path":
                for path in paths if isinstance(paths, list) else [paths]:
                    if isinstance(path, str):
                        self.file(path, (*params_loc, name))
        for at, hub in (((*loc, "hub"), dataset.hub), ((*params_loc, "hub"), (params.model_extra or {}).get("hub"))):
            if not isinstance(hub, str):
                continue
            if is_folder(hub, self.folder):
                self.file(hub, at)
            else:
                self.add("fetch", f"dataset {hub}", at, f"from {_HUB}")
        if params.content_root is not None:
            self.file(params.content_root, (*params_loc, "content_root"), "media that its records name")
        else:
            self.images_beside(params, (*params_loc, "image"))

    def images_beside(self, params: DatasetParams, loc: Loc) -> None:
        """Note the images of the loader `files`, ``{stem}.png``, next to the data."""
        image = (params.model_extra or {}).get("image")
        if not isinstance(image, str) or _STEM not in image:
            return
        for path in params.path if isinstance(params.path, list) else [params.path]:
            if path is not None and "://" not in path:
                self.named(str(folder_of(Path(path)) / image.replace(_STEM, "*")), loc, "data")

    def origin(self, name: str, loc: Loc) -> None:
        """The files of a pinned origin; that there is none is among the problems."""
        with suppress(InputError):
            origin = load_origin(name, self.folder)
            note = f"commit {origin.commit[:12]}, each file by its sha256, unless they are here already"
            self.add("fetch", f"data of {origin.repository}", loc, note)

    def backend(self, loc: Loc, backend: InlineBackend) -> None:
        if registry.backends.origin(backend.type) != "builtin":
            for name, value in backend.config.items():
                if isinstance(value, str) and "://" in value:
                    self.add("send", value, (*loc, "config", name), "by the plug-in")
            return
        try:
            config = config_model(backend.type).model_validate(backend.config)
        except ValueError:
            return  # reported as a problem
        config_loc: Loc = (*loc, "config")
        for name in _FILES:
            path = getattr(config, name, None)
            if isinstance(path, str) and not (name == "path" and backend.type != "replay"):
                self.model(path, (*config_loc, name), is_model=name != "path")
        url = getattr(config, "base_url", None)
        if url is not None:
            self.add("send", url, (*config_loc, "base_url"), self.sent_with(config_loc, config))
        elif backend.type in _ENGINES:
            self.engine(backend.type, config_loc, config)

    def sent_with(self, config_loc: Loc, config: BackendConfig) -> str:
        """A note about what is sent to an endpoint."""
        key = getattr(config, "api_key", None)
        names = [] if key is None else [key.removeprefix("env:") if key.startswith("env:") else f"the block {key}"]
        written = as_written((*config_loc, "base_url"), self.document.data)
        names += self.document.variables.get((*self.document.prefix, *written), ())
        values = f" and the value of {', '.join(names)}" if names else ""
        return f"questions, media{values}"

    def engine(self, type_: str, config_loc: Loc, config: BackendConfig) -> None:
        python = getattr(config, "python", None)
        executable = sys.executable
        if python is not None:
            place = self.place(python) if "/" in python else None
            executable = f"{python} on the PATH" if place is None else str(place)
            if place is not None:
                self.named(python, (*config_loc, "python"), "program")
        passed = {**(config.model_extra or {})}
        notes = [f"for {type_}, with all environment variables"]
        if passed:
            notes.append("arguments " + ", ".join(f"{name}={value}" for name, value in passed.items()))
        if variables := getattr(config, "env", None):
            notes.append("variables " + ", ".join(f"{name}={value}" for name, value in variables.items()))
        self.add("start", executable, config_loc, "; ".join(notes))
        entry = engine_entry(type_, config.model_dump())
        if entry is not None and getattr(config, "module_path", None) is None:
            self.engines.append(entry)
        if passed.get("trust_remote_code") or getattr(config, "trust_remote_code", False):
            self.add("run", f"code that comes with {getattr(config, 'model_path', 'the model')}", config_loc)
        if type_ == "custom_script":
            module, name = getattr(config, "module_path", None), getattr(config, "class_name", "")
            file = getattr(config, "file_path", None)
            place = None if file is None else self.place(file)
            code = f"{file or module}:{name}" if place is None else f"{place.resolve()}:{name}"
            self.add("run", code, config_loc, _missing(code))
            self.named_code(f"{file or module}:{name}", config_loc)

    def model(self, path: str, loc: Loc, *, is_model: bool) -> None:
        if is_model and not path.startswith((".", "/", "~")) and not os.path.exists(self.folder / path):
            self.add("fetch", f"model {path}", loc, f"from {_HUB}")
        else:
            self.file(path, loc, kind="model" if is_model else "data")

    def file(self, path: str, loc: Loc, note: str = "", kind: FileKind = "data") -> None:
        """Add a file, a folder or a pattern. A URL is fetched."""
        if "://" in path:
            note = "" if path.startswith(("http://", "https://")) else "with this machine's credentials for it"
            self.add("fetch", path, loc, note)
            return
        self.named(path, loc, kind)
        absolute = self.place(path)
        if absolute is None:
            return
        leads, is_link = absolute.resolve(), absolute.is_symlink()
        if leads != absolute and is_link:
            note = f"{note}, " * bool(note) + f"a link to {leads}"
        self.add("read", str(absolute if is_link else leads), loc, note)

    def place(self, path: str) -> Path | None:
        """The target of a path, with links unresolved; None if the text is not a valid path. Reading it reports the
        problem.
        """
        try:
            absolute = local_path(path, self.folder).absolute()
            absolute.lstat()
            absolute.resolve()
        except FileNotFoundError:
            return absolute
        except (InputError, OSError, ValueError, RuntimeError):
            return None  # an unknown home folder, a name that is too long, a NUL byte, links in a circle
        return absolute

    def texts(self, value: Any) -> None:
        """Note each text that names a file below the folder, such as a word list among a plug-in's parameters."""
        known = {file.name for file in self.files}
        for loc, text in leaves(value):
            if not isinstance(text, str) or text in known:
                continue
            if 0 < len(text) <= _LONGEST_NAME and "\0" not in text and "://" not in text:
                with suppress(OSError):
                    if not Path(text).is_absolute() and (self.folder / text).is_file():
                        key = next((part for part in reversed(loc) if isinstance(part, str)), "")
                        self.files.append(NamedFile(text, key, "data"))

    def references(self, config: Any) -> None:
        """Add ``env:`` and ``block:`` references, except ``api_key``, which is part of its URL's note."""
        for inner, text in _references(config):
            if inner[-1:] != ("api_key",):
                self.add("send", f"the value of {text}", inner, "to what that setting is for")


def _references(config: Any) -> Iterator[tuple[Loc, str]]:
    return ((loc, value) for loc, value in leaves(config) if secrets.is_reference(value))


def _missing(code: str) -> str:
    file, colon, _ = code.rpartition(":")
    return "there is no such file" if colon and file.endswith(".py") and not os.path.isfile(file) else ""


def _code_of_profile(file: Path) -> list[str]:
    """Names in a scoring profile that refer to code outside this package."""
    try:
        tree = lines.parse(read_beside(file, str(file), "scoring profile"), str(file))
    except InputError:
        return []  # reported as a problem
    ours = (None, "builtin")
    names = dict.fromkeys(_names_in_profile(lines.as_written(tree)))
    return [name for name in names if is_path(name) or registry.metrics.origin(name) not in ours]


def _names_in_profile(value: Any, *, of_code: bool = False) -> Iterator[str]:
    """Every text that may name code: values under the keys of `_NAMES_CODE`, and keys that name filters with
    parameters.
    """
    if isinstance(value, dict):
        for key, item in value.items():
            if of_code:
                yield str(key)
            yield from _names_in_profile(item, of_code=of_code or key in _NAMES_CODE)
    elif isinstance(value, list):
        for item in value:
            yield from _names_in_profile(item, of_code=of_code)
    elif of_code and isinstance(value, str):
        yield value
