"""Registrations of a test that end with it."""

from typing import Any

import pytest

from gage_eval.extend.registry import Registry


def keep(patch: pytest.MonkeyPatch, *registries: Registry[Any]) -> None:
    """Restore what is registered when the patch ends.

    All plug-ins are imported first: a built-in one registers when its module is imported, and that happens once.
    """
    for registry in registries:
        patch.setattr(registry, "_plugins", {plugin.name: plugin for plugin in registry})
