"""``include``: other files of the same config, merged before all other passes.

A file's own values override those of the files it includes, and a later included file overrides an earlier one.
Relative paths in an included file start from the folder of the config that is run, like those in the config itself. The
config may be untrusted: an include stays below that folder, with links resolved, and has no placeholders.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gage_eval.base.errors import ConfigError, InputError, Problem
from gage_eval.config.files import read_beside
from gage_eval.config.yaml import lines
from gage_eval.config.yaml.lines import Listing, Mapping, Node, Scalar
from gage_eval.config.yaml.nodes import child, merged_configs, size_of, text_of, without

_MOST_FILES = 64


def with_includes(node: Node, source: str, folder: Path) -> tuple[Node, tuple[Path, ...]]:
    """The config with the files that it includes merged into it; and those files.

    Args:
        node: the file's tree.
        source: the file's name in errors.
        folder: the folder of the file; includes stay below it.

    Raises:
        ConfigError: an include that cannot be used; all of one file at once.
    """
    if child(node, "include") is None:
        return node, ()
    includer = _Includer(folder.resolve())
    return includer.merged(node, source, folder, ()), tuple(includer.known)


@dataclass
class _Includer:
    root: Path
    files: int = 0
    sizes: int = 0
    # The trees of files that several others include.
    known: dict[Path, Node] = field(default_factory=dict)

    def merged(self, node: Node, source: str, folder: Path, chain: Sequence[tuple[Path, str]]) -> Node:
        if not isinstance(node, Mapping) or (include := node.items.get("include")) is None:
            return node
        own = without(node, "include")
        problems: list[Problem] = []
        base: Mapping | None = None
        listed = include.items if isinstance(include, Listing) else [include]
        for at, item in enumerate(listed):
            place = f"include[{at}]" if isinstance(include, Listing) else "include"
            try:
                config = self.included(item, source, folder, chain)
            except ConfigError:
                raise
            except InputError as error:
                problems.append(Problem(place, str(error), item.line))
                continue
            base = config if base is None else merged_configs(base, config)
        if problems:
            raise ConfigError(source, problems)
        return own if base is None else merged_configs(base, own)

    def included(self, item: Node, source: str, folder: Path, chain: Sequence[tuple[Path, str]]) -> Mapping:
        if not isinstance(item, Scalar) or not text_of(item):
            raise InputError("'include' is a file or a list of files.")
        name = item.text
        if "${" in name or "://" in name:
            raise InputError(f"'{name}' is not a file below the config's folder: write its path, without placeholders.")
        try:
            file = (folder / name).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise InputError(f"{name!r} is not a file name ({error}); write the path of a config file.") from error
        if not file.is_relative_to(self.root):
            raise InputError(f"'{name}' leads out of the config's folder; move the file into it.")
        shown = str(Path(source).parent / name)
        here = [*chain, (file, shown)]
        if any(file == other for other, _ in chain):
            first = next(at for at, (other, _) in enumerate(chain) if other == file)
            raise InputError(f"files include each other: {' includes '.join(name for _, name in here[first:])}.")
        if file not in self.known:
            self.known[file] = self.read(file, shown, here)
        tree = self.known[file]
        self.sizes += size_of(tree)
        if self.sizes > lines.MAX_NODES:
            raise InputError(f"includes add up to more than {lines.MAX_NODES:,} values; include less.")
        assert isinstance(tree, Mapping)
        return tree

    def read(self, file: Path, shown: str, chain: Sequence[tuple[Path, str]]) -> Node:
        self.files += 1
        if self.files > _MOST_FILES:
            raise InputError(f"more than {_MOST_FILES} files are included; combine some of them.")
        tree = lines.parse(read_beside(file, shown, "config"), shown)
        kind = text_of(child(tree, "kind"))
        if not isinstance(tree, Mapping) or kind not in (None, "PipelineConfig"):
            raise InputError(
                f"'{shown}' is {f'a {kind}' if kind else 'not a mapping'}; only a PipelineConfig is included."
            )
        return self.merged(tree, shown, file.parent, chain)
