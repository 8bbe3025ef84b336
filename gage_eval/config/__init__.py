"""Configuration: from a YAML file to resolved tasks."""

from gage_eval.config.document import Origin
from gage_eval.config.load import LoadedConfig, load_config, parse_config
from gage_eval.config.models import PipelineConfig
from gage_eval.config.resolve import ResolvedRole, ResolvedTask, resolve
from gage_eval.config.secrets import scrub
from gage_eval.config.suites.templates import SuiteInfo, list_suites, load_suite

__all__ = [
    "LoadedConfig",
    "Origin",
    "PipelineConfig",
    "ResolvedRole",
    "ResolvedTask",
    "SuiteInfo",
    "list_suites",
    "load_config",
    "load_suite",
    "parse_config",
    "resolve",
    "scrub",
]
