"""Files that come with the package."""

from pathlib import Path


def configs_dir() -> Path:
    """The configs that come with the package: a checkout's ``configs/``, else the packaged copy."""
    package = Path(__file__).resolve().parent
    checkout = package.parent / "configs"
    # An installed package has other packages beside it, one of which may be called `configs`.
    if checkout.is_dir() and (package.parent / "pyproject.toml").is_file():
        return checkout
    return package / "_configs"
