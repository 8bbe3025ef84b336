"""Configuration: from a YAML file to tasks that can be planned.

`load_config` reads and checks a file, `resolve` brings together what its tasks are made of.
"""

from gage_eval.config.check import ResolvedConfig, ResolvedRole, ResolvedTask, expand, resolve
from gage_eval.config.load import LoadedConfig, load_config, parse_config
from gage_eval.config.models import PipelineConfig
from gage_eval.config.secrets import scrub
from gage_eval.config.templates import SuiteInfo, list_suites, load_suite

__all__ = [
    "LoadedConfig",
    "PipelineConfig",
    "ResolvedConfig",
    "ResolvedRole",
    "ResolvedTask",
    "SuiteInfo",
    "expand",
    "list_suites",
    "load_config",
    "load_suite",
    "parse_config",
    "resolve",
    "scrub",
]
