"""The files of bundles on this machine, as long as the process lasts."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from gage_eval.store import Store
from gage_eval.store.bundles import Bundle, write_files


@cache
def unpacked(store: str, name: str) -> Path:
    """Write the files of a bundle into a temporary folder, once per process. Returns the file of the config.

    Args:
        store: URL of the store.
        name: of the bundle.

    Raises:
        InputError: the store does not have the bundle or a file as it was stored, or a path leads out of the folder.
        StoreError: the store cannot be read.
    """
    opened = Store.open(store, read_only=True)
    bundle = Bundle.find(opened.objects, name)
    folder = Path(tempfile.mkdtemp(prefix="gage-eval-bundle-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    write_files(opened.media, bundle.files, folder)
    return folder / bundle.config
