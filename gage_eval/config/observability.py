"""The section ``observability`` of a config: which events there are, and where they go."""

from typing import Literal, Self

from pydantic import model_validator

from gage_eval.base.marks import nested, scheduling
from gage_eval.base.stages import Stage
from gage_eval.config.base_model import ConfigModel

# The parameters that a sink of each type takes.
_SINK_PARAMS = {
    "file": frozenset[str](),
    "console": frozenset[str](),
    "http": frozenset({"batch", "timeout", "fail_pct", "headers"}),
    "otel": frozenset({"headers", "service_name"}),
}


class SinkParams(ConfigModel):
    """Settings of a sink that sends events."""

    batch: int = scheduling(50, ge=1)
    timeout: float = scheduling(10.0, gt=0)
    fail_pct: float = scheduling(5.0, ge=0, le=100)
    headers: dict[str, str] = scheduling({})
    service_name: str = scheduling("gage-eval")


class SinkConfig(ConfigModel):
    """A destination of events."""

    type: Literal["file", "http", "console", "otel"] = scheduling()
    output_path: str | None = scheduling(None)
    url: str | None = scheduling(None)
    params: SinkParams = nested(SinkParams())

    @model_validator(mode="after")
    def _fits_its_type(self) -> Self:
        if self.type == "file" and not self.output_path:
            raise ValueError("a file sink needs an 'output_path'")
        if self.type == "http" and self.url is None:
            raise ValueError("an http sink needs a 'url'")
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            raise ValueError("'url' starts with http:// or https://")
        if self.url is not None and self.type not in ("http", "otel"):
            raise ValueError(f"a {self.type} sink has no 'url'")
        if self.output_path is not None and self.type != "file":
            raise ValueError(f"a {self.type} sink has no 'output_path'")
        unused = sorted(self.params.model_fields_set - _SINK_PARAMS[self.type])
        if unused:
            raise ValueError(f"a {self.type} sink has no parameter '{unused[0]}'")
        return self


class ObservabilityConfig(ConfigModel):
    """Events of a run and where they go."""

    enabled: bool = scheduling(default=True)
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = scheduling("INFO")
    sample_rate: float = scheduling(0.01, ge=0, le=1)
    stage_sample_rates: dict[Stage, float] = scheduling({})
    sinks: list[SinkConfig] = nested([])
