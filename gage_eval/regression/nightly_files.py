"""The configs that a file of nightly runs names travel to the workers through the store when the file is deployed.

A night therefore runs them as they were then. A config that cannot travel is read where it is, which only workers on
this machine can do.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gage_eval.base.errors import InputError
from gage_eval.models.backends.base import Blocks
from gage_eval.regression.nightly import Nightly, check_detect
from gage_eval.runs.bundling import RunFiles, lacks, pack_together
from gage_eval.runs.deployed import DeploymentRecord, record_deployment
from gage_eval.runs.names import slug
from gage_eval.runs.options import BUNDLE_PREFIX, Locations
from gage_eval.store import Store


@dataclass(frozen=True)
class NightlyFiles:
    """The files of the configs of nightly runs, read and ready to be stored.

    Attributes:
        nightly: the file of nightly runs.
        folder: that paths of configs start from.
        store: URL of the store.
        packed: the files by config, as the file of nightly runs names it. All models of a config share them.
        unchecked: which cells cannot be checked for the loss that the file asks for, a sentence each.
    """

    nightly: Nightly
    folder: Path
    store: str
    packed: Mapping[str, RunFiles]
    unchecked: Sequence[str] = ()

    @property
    def configs(self) -> dict[str, str]:
        """Where the worker finds each config: in the store, or at its path."""
        stored = {name: f"{BUNDLE_PREFIX}{bundle}" for name, bundle in self._bundles.items()}
        return {**self.nightly.configs_in(self.folder), **stored}

    @property
    def _bundles(self) -> dict[str, str]:
        return {name: files.bundle for name, files in self.packed.items() if files.bundle is not None}

    def lacks(self, pool: str | None) -> Iterator[str]:
        """What a worker lacks, one sentence each, as `bundling.lacks`; and that the configs are stored as they are now.

        Raises:
            InputError: a config cannot travel, and the store is for other machines.
        """
        yield from self.unchecked
        if self.packed:
            yield from lacks(None, self.store, pool)
        for name, files in self.packed.items():
            try:
                yield from (f"{name}: {sentence}" for sentence in lacks(files, self.store, None))
            except InputError as error:
                raise InputError(f"{name}: {error}") from error
        if self._bundles:
            names = ", ".join(self._bundles)
            yield f"nights run {names} as of now. After a change of a config, its plug-ins or its data, deploy again."

    def put(self) -> None:
        """Store the files. `gage cache gc` removes them after a while, unless `keep` says that they are needed."""
        if self.packed:
            opened = Store.open(self.store)
            for files in self.packed.values():
                files.put(opened)

    def keep(self, api_url: str, *, deployment_id: str, flow_id: str) -> None:
        """Have `gage cache gc` keep the files for a deployment, in place of what it needed before.

        Args:
            api_url: the API that has the deployment.
            deployment_id: of the deployment.
            flow_id: of its flow.
        """
        if self.packed:
            record = DeploymentRecord(
                deployment=slug(self.nightly.name),
                deployment_id=deployment_id,
                flow_id=flow_id,
                api=api_url,
                bundles=tuple(sorted(self._bundles.values())),
            )
            record_deployment(Store.open(self.store), record)


def nightly_files(nightly: Nightly, folder: Path, locations: Locations, blocks: Blocks | None) -> NightlyFiles:
    """Read the files that the configs of nightly runs need on another machine.

    Args:
        nightly: the file of nightly runs.
        folder: that paths of configs start from.
        locations: of all runs.
        blocks: the blocks of the Prefect API.

    Raises:
        ConfigError: the mistakes of a config, or cells that cannot find the loss that the file asks for.
        InputError: it cannot be read.
    """
    configs = nightly.configs_in(folder)
    packed = {}
    for row in nightly.rows:
        if row.config is None:
            continue
        runs = [locations.placed(nightly.options_of(row, model, configs)) for model in nightly.models]
        files = pack_together(runs, blocks, strict=True)
        assert files is not None, "a config that is named by a path has files"
        packed[row.config] = files
    unchecked = check_detect(nightly, configs, locations, blocks)
    return NightlyFiles(nightly, folder, locations.store, packed, unchecked)
