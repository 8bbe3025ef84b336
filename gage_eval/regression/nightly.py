"""Nights: every suite with every model, each measured against its baseline.

A night is a matrix with a schedule. Its label is its date, ``2026-11-22``. Its runs have names made of the label, so
that a night that is started again resumes, and their answers have the label as freshness, so that no night is answered
from the store. Another attempt has its own label, ``2026-11-22.fixed``, so it asks every model again.
"""

import logging
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, Self, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator, model_validator

from gage_eval.base.errors import ConfigError, GageError, InputError, Problem
from gage_eval.base.strict_model import StrictModel
from gage_eval.engine.endpoint_check import PropertyVerdict, stored_reference
from gage_eval.engine.host import SharedEngines
from gage_eval.models.backends.base import Blocks
from gage_eval.regression.baselines import Baselines
from gage_eval.regression.exact import Ask
from gage_eval.regression.gate_report import write_report
from gage_eval.regression.gating import GateResult, gate_with_anchor
from gage_eval.regression.matrix import Matrix, MatrixModel, MatrixRow
from gage_eval.regression.policy import GatePolicy
from gage_eval.regression.power import NumberPower, entry_power, newest_power
from gage_eval.regression.trend import trend
from gage_eval.report.trend_chart import MOST_POINTS, TrendPoint
from gage_eval.runs.names import is_name, slug
from gage_eval.runs.options import Locations, RunOptions
from gage_eval.runs.planned import PlannedRun, planned
from gage_eval.runs.probes import check_models_endpoint
from gage_eval.runs.results.reading import RunReader
from gage_eval.runs.sequence import run_all
from gage_eval.stats.gate_rule import GateRule
from gage_eval.stats.verdicts import Verdict

# The name of another attempt. It has no hyphen: the parts of a run's name are joined by hyphens.
ATTEMPT_PATTERN = r"[A-Za-z0-9_]{1,20}"
# The verdict on a cell. failed: it has no scores. unmeasured: no baseline that it can be compared with.
CellVerdict: TypeAlias = Verdict | Literal["failed", "unmeasured"]
_log = logging.getLogger(__name__)

_CRON_FIELDS = ("minute", "hour", "day of the month", "month", "day of the week")
# What the night as a whole is, the gravest first.
_GRAVEST: tuple[CellVerdict, ...] = ("regressed", "failed", "unmeasured", "inconclusive", "improved", "passed")


class Schedule(StrictModel):
    """When a night begins.

    Attributes:
        cron: five fields: minute, hour, day of the month, month, day of the week.
        timezone: a name such as ``Europe/Berlin``.
    """

    cron: str
    timezone: str = "UTC"

    @field_validator("cron")
    @classmethod
    def _five_fields(cls, value: str) -> str:
        if len(value.split()) != len(_CRON_FIELDS):
            raise ValueError(f"'{value}' is not a schedule: give {', '.join(_CRON_FIELDS)}, such as 0 2 * * *")
        return value

    @field_validator("timezone")
    @classmethod
    def _known(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError(f"no time zone '{value}'; give a name such as Europe/Berlin") from error
        return value


class NightlyModel(MatrixModel):
    """A model, and what its nights are measured against.

    Attributes:
        baseline: the name of the baselines of its runs; its own name by default.
        reference: the digest of what its endpoint should do, as ``gage probe --record`` prints it; it is checked before
            the runs begin.
    """

    baseline: str | None = None
    reference: str | None = Field(None, pattern=r"^[0-9a-f]{64}$")

    @property
    def baseline_name(self) -> str:
        return self.baseline or slug(self.name)


class Nightly(Matrix):
    """What a file of nightly runs holds.

    Attributes:
        name: of the deployment, and the first part of the names of all runs.
        schedule: when a night begins.
        models: each runs every row.
        gate: tolerance, level and mode of all verdicts.
        policy: which numbers decide; that of each baseline by default.
        webhook: URL that is sent what people should know: a regression, what its triage found, a night that failed or
            did not come; ``block:NAME`` for a Webhook block that exists.
        notify: notification block of Prefect that is sent the same as text, ``TYPE/NAME`` such as
            ``slack-webhook/team``.
        runs_at_once: how many runs go on side by side.
        detect: the loss that every cell must be able to find with a chance of 80 %, in units of the metric. Where the
            gate has no tolerance, it then tolerates half of it at most, which takes no more rows.
    """

    name: str = "nightly"
    schedule: Schedule
    models: list[NightlyModel] = Field(min_length=1)
    gate: GateRule = GateRule()
    policy: GatePolicy | None = None
    webhook: str | None = None
    notify: str | None = Field(None, pattern=r"^[a-z0-9-]+/[a-z0-9-]+$")
    runs_at_once: int = Field(2, ge=1)
    detect: float | None = Field(None, gt=0, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _tolerates_less(cls, value: Any) -> Any:
        # The default tolerance would accept the very loss that is to be found.
        detect, gate = (value.get(name) for name in ("detect", "gate")) if isinstance(value, dict) else (None, None)
        if not isinstance(detect, int | float) or not isinstance(gate, dict | None) or "tolerance" in (gate or {}):
            return value
        return {**value, "gate": {**(gate or {}), "tolerance": min(GateRule().tolerance, detect / 2)}}

    @field_validator("webhook")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value is not None and re.fullmatch(r"(https?://|block:)\S+", value) is None:
            raise ValueError("must be a URL that starts with http:// or https://, or the name of a block, block:NAME")
        return value

    @model_validator(mode="after")
    def _named(self) -> Self:
        for model in self.models:
            if not is_name(model.baseline_name):
                raise ValueError(f"the baseline '{model.baseline_name}' needs a plain name: letters, digits, . _ -")
        ids = [self.run_id(label_of(date.min), row, model) for row in self.rows for model in self.models]
        twice = next((run_id for run_id in ids if ids.count(run_id) > 1), None)
        if twice is not None:
            raise ValueError(f"two cells would have the run name '{twice}': rename a model or a config")
        long = next((run_id for run_id in ids if not is_name(run_id)), None)
        if long is not None:
            raise ValueError(f"'{long}' is too long for the name of a run: choose shorter names")
        return self

    def _wrong_options(self) -> list[Problem]:
        wrong = [] if self.policy is None else self.policy.problems()
        return [
            *super()._wrong_options(),
            *(Problem(f"policy.{x.path}" if x.path else "policy", x.message) for x in wrong),
        ]

    def chosen(self, rows: Collection[str], models: Collection[str], samples: int | None = None) -> Self:
        """The same with some of its rows and models only, by their names; with all where none are named.

        Args:
            rows, models: their names.
            samples: how many each task runs; None for what the file says. Such a quick look need not find a loss.

        Raises:
            InputError: there is no row or model of such a name.
        """
        for what, names, there in (("row", rows, self.rows), ("model", models, self.models)):
            known = [item.name for item in there]
            if unknown := [name for name in names if name not in known]:
                raise InputError(f"{self.name} has no {what} '{unknown[0]}': name one of {', '.join(known)}.")
        limit = {} if samples is None else {"max_samples": samples}
        return self.model_copy(
            update={
                "detect": self.detect if samples is None else None,
                "rows": [row for row in self.rows if not rows or row.name in rows],
                "models": [
                    model.model_copy(update={"options": {**model.options, **limit}})
                    for model in self.models
                    if not models or model.name in models
                ],
            }
        )

    def run_id(self, label: str, row: MatrixRow, model: MatrixModel) -> str:
        """The name of a cell's run."""
        return "-".join((slug(self.name), label, row.slug, slug(model.name)))

    def is_run_of(self, run_id: str, row: MatrixRow, model: MatrixModel) -> bool:
        """Whether a run is some night's run of a cell."""
        name, ends = (re.escape(text) for text in (slug(self.name), f"{row.slug}-{slug(model.name)}"))
        return re.fullmatch(rf"{name}-\d{{4}}-\d\d-\d\d(\.{ATTEMPT_PATTERN})?-{ends}", run_id) is not None

    def options_of_night(
        self, label: str, row: MatrixRow, model: MatrixModel, configs: Mapping[str, str]
    ) -> RunOptions:
        """The options of a cell on a night.

        Raises:
            InputError: an option does not fit, or nothing says where the config is.
        """
        options = {"run_id": self.run_id(label, row, model), "freshness": label}
        return self.options_of(row, model, configs).model_copy(update=options)


def label_of(night: date, attempt: str = "") -> str:
    """The label of a night, or of another attempt of it."""
    return f"{night.isoformat()}.{attempt}" if attempt else night.isoformat()


@dataclass(frozen=True)
class NightCell:
    """One model on one row, and the verdict on it.

    Attributes:
        row, model: of the file.
        run: the run; None where it failed.
        gated: the verdicts against the newest entry of the baseline; None where there is none.
        anchor: the same against the first entry, where that is another one.
        trend: the scores of the cell's nights so far, oldest first.
        problem: why there is no verdict.
    """

    row: MatrixRow
    model: NightlyModel
    run: RunReader | None
    gated: GateResult | None = None
    anchor: GateResult | None = None
    trend: tuple[TrendPoint, ...] = ()
    problem: str | None = None

    @property
    def name(self) -> str:
        """As people know it."""
        return f"{self.row.name} with {self.model.name}"

    @property
    def verdict(self) -> CellVerdict:
        if self.gated is not None:
            return self.gated.verdict
        return "failed" if self.run is None else "unmeasured"

    @property
    def is_bad(self) -> bool:
        """Whether it fails the night: it regressed or failed, or lacks the evidence that its policy asks for."""
        return self.verdict in ("regressed", "failed") or (self.gated is not None and self.gated.lacks_evidence)

    @property
    def rings(self) -> bool:
        """Whether the sequential alarm rings for one of its tasks."""
        return self.gated is not None and any(task.alarm.rings for task in self.gated.tasks if task.tier != "advisory")

    @property
    def sentence(self) -> str:
        """What happened: ``gsm8k with small: regressed (gsm8k exact_match −0.100)``."""
        if self.gated is None:
            return f"{self.name}: {self.verdict} ({self.problem})"
        changes = [
            f"{task.comparison.task_id} {task.comparison.measure.name} {task.change}"
            for task in self.gated.tasks
            if task.decision.verdict == self.verdict and task.tier != "advisory"
        ]
        return f"{self.name}: {self.verdict} ({', '.join(changes)})"


@dataclass(frozen=True)
class NightEndpoint:
    """The check of a model's endpoint.

    Attributes:
        model: of the file.
        verdicts: on its properties.
        problem: why there are none.
    """

    model: NightlyModel
    verdicts: tuple[PropertyVerdict, ...] = ()
    problem: str | None = None

    @property
    def is_bad(self) -> bool:
        """Whether it fails the night: a property failed, or none could be checked."""
        return self.problem is not None or any(each.verdict == "failed" for each in self.verdicts)

    @property
    def sentence(self) -> str:
        """What was seen: ``endpoint of small: failed (logprobs: …)``."""
        if self.problem is not None:
            return f"endpoint of {self.model.name}: not checked ({self.problem})"
        texts = {
            verdict: [f"{each.property}: {each.text}" for each in self.verdicts if each.verdict == verdict]
            for verdict in ("failed", "not_known", "passed")
        }
        if texts["failed"]:
            return f"endpoint of {self.model.name}: failed ({'; '.join(texts['failed'])})"
        known, unknown = len(texts["passed"]), len(texts["not_known"])
        return f"endpoint of {self.model.name}: {known} properties passed, {unknown} not known"


@dataclass(frozen=True)
class Night:
    """All cells of a night, and the checks of endpoints."""

    nightly: Nightly
    label: str
    cells: tuple[NightCell, ...]
    endpoints: tuple[NightEndpoint, ...] = ()

    @property
    def verdict(self) -> CellVerdict:
        """The gravest verdict of a cell; an endpoint that is not the model any more counts as a failed one."""
        endpoints: list[CellVerdict] = ["failed" for endpoint in self.endpoints if endpoint.is_bad]
        return min((*(cell.verdict for cell in self.cells), *endpoints), key=_GRAVEST.index)

    @property
    def is_bad(self) -> bool:
        """Whether a cell or an endpoint fails it."""
        return bool(self._bad)

    @property
    def _bad(self) -> list[str]:
        cells = [cell.sentence for cell in self.cells if cell.is_bad]
        return cells + [endpoint.sentence for endpoint in self.endpoints if endpoint.is_bad]

    @property
    def sentence(self) -> str:
        """What happened, for a state's message."""
        if self.is_bad:
            return "; ".join(self._bad)
        counts = {verdict: sum(cell.verdict == verdict for cell in self.cells) for verdict in _GRAVEST}
        return ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)


def run_night(
    nightly: Nightly,
    label: str,
    configs: Mapping[str, str],
    locations: Locations,
    run: Callable[[RunOptions, SharedEngines], RunReader],
    told: Callable[[NightCell], None] = lambda cell: None,
    *,
    blocks: Blocks | None = None,
) -> Night:
    """Run and measure every cell. If one fails, the others still run. An engine starts once for all that need it.

    Several runs go on side by side, in threads.

    Args:
        nightly: the file of nightly runs.
        label: of the night.
        configs: where each config is: a file, or a bundle in the store.
        locations: of all runs.
        run: carries out a run.
        told: receives every cell when it is measured.
        blocks: the blocks of the Prefect API, if there is one.

    Raises:
        InputError: a cell cannot find the loss that the file asks for.
    """
    for sentence in check_detect(nightly, configs, locations, blocks):
        _log.warning("%s", sentence)
    endpoints = tuple(
        _checked(nightly, model, model.reference, configs, locations, blocks)
        for model in nightly.models
        if model.reference is not None
    )
    places = [(row, model) for model in nightly.models for row in nightly.rows]
    cells: dict[int, NightCell] = {}

    def carried_out(options: RunOptions, host: SharedEngines) -> RunReader:
        reader = run(options, host)
        # Here, because the gate may ask again, and the run's engine is still up.
        number = next(number for number, own in runs.items() if own.run_id == options.run_id)
        cells[number] = _measured(nightly, *places[number], reader, lambda more: run(locations.placed(more), host))
        return reader

    def ended(number: int, result: RunReader | GageError) -> None:
        if isinstance(result, GageError):
            cells[number] = _measured(nightly, *places[number], result)
        try:
            told(cells[number])
        except Exception:  # noqa: BLE001 - the other cells are reported
            _log.exception("the verdict on %s could not be reported", cells[number].name)

    runs: dict[int, RunOptions] = {}
    for number, (row, model) in enumerate(places):
        try:
            runs[number] = locations.placed(nightly.options_of_night(label, row, model, configs))
        except GageError as error:
            ended(number, error)
    numbers = list(runs)
    run_all(
        list(runs.values()),
        carried_out,
        at_once=nightly.runs_at_once,
        blocks=blocks,
        ended=lambda place, result: ended(numbers[place], result),
    )
    return Night(nightly, label, tuple(cells[number] for number in range(len(places))), endpoints)


def _checked(
    nightly: Nightly,
    model: NightlyModel,
    name: str,
    configs: Mapping[str, str],
    locations: Locations,
    blocks: Blocks | None,
) -> NightEndpoint:
    """The check of a model's endpoint, as the first row asks it."""
    try:
        run = planned(locations.placed(nightly.options_of(nightly.rows[0], model, configs)), blocks=blocks)
        return NightEndpoint(model, tuple(check_models_endpoint(run, stored_reference(run.store, name))))
    except GageError as error:
        return NightEndpoint(model, problem=str(error))
    except Exception as error:  # noqa: BLE001 - the runs go on
        _log.exception("the endpoint of %s could not be checked", model.name)
        return NightEndpoint(model, problem=f"{type(error).__name__}: {error}")


def check_detect(
    nightly: Nightly, configs: Mapping[str, str], locations: Locations, blocks: Blocks | None = None
) -> list[str]:
    """Refuse nights that could not find the loss that their file asks for. No model is asked.

    Cells without a baseline are checked by the newest run of their config or suite. Cells that cannot run are left out,
    because the night says so itself.

    Args:
        nightly, configs, locations, blocks: as for `run_night`.

    Returns:
        A sentence for each cell that cannot be checked, because nothing stored shows how its rows vary.

    Raises:
        ConfigError: which numbers of which cells fall short, with the rows that they need; all at once.
    """
    if nightly.detect is None:
        return []
    problems = []
    unchecked = []
    for model in nightly.models:
        for row in nightly.rows:
            cell = f"{row.name} with {model.name}"
            try:
                options = locations.placed(nightly.options_of(row, model, configs))
                run = planned(options, blocks=blocks, read_only=True)
            except GageError:
                continue
            powers: list[NumberPower] = []
            with suppress(GageError):  # there is no store yet, or a baseline is damaged
                powers = _powers_of(nightly, model, run)
            deciding = [power for power in powers if power.tier != "advisory"]
            unknown = [power for power in deciding if power.spread is None and power.rule.mode != "exact"]
            if unknown or not deciding:
                unchecked.append(f"{cell}: detect is not checked, because nothing stored shows how its rows vary")
            problems += [
                Problem("detect", f"{cell}: {short}.")
                for power in deciding
                if (short := power.shortfall(nightly.detect)) is not None
            ]
    if problems:
        raise ConfigError(nightly.name, problems)
    return unchecked


def _powers_of(nightly: Nightly, model: NightlyModel, run: PlannedRun) -> list[NumberPower]:
    """What the gate could find in a cell: against its baseline, else by the newest run of its config or suite."""
    baselines = Baselines(run.store)
    if (run.plan.name, model.baseline_name) not in baselines.names():
        return newest_power(run.plan, run.locations, nightly.gate, nightly.policy)
    entry = baselines.latest(run.plan.name, model.baseline_name)
    return entry_power(run.plan, run.store, entry, run.locations, nightly.gate, nightly.policy)


def _measured(
    nightly: Nightly, row: MatrixRow, model: NightlyModel, result: RunReader | GageError, ask: Ask | None = None
) -> NightCell:
    if isinstance(result, GageError):
        return NightCell(row, model, None, problem=str(result))
    try:
        newest, anchor = gate_with_anchor(result, model.baseline_name, nightly.gate, policy=nightly.policy, ask=ask)
    except GageError as error:
        return NightCell(row, model, result, problem=str(error))
    except Exception as error:  # noqa: BLE001 - the other cells go on
        _log.exception("run %s could not be measured", result.run_id)
        return NightCell(row, model, result, problem=f"{type(error).__name__}: {error}")
    points: list[TrendPoint] = []
    try:
        points = trend(
            result.stored.folder.locations,
            newest.entry,
            lambda stored: nightly.is_run_of(stored.run_id, row, model),
            metrics=newest.metrics,
            until=result.stored.record.created,
            most=MOST_POINTS,
        )
    except Exception as error:  # noqa: BLE001 - whatever it is, the verdict is there
        _log.warning("run %s has no trend, because its nights could not be read: %s", result.run_id, error)
    write_report(result, newest, anchor, points)
    return NightCell(row, model, result, newest, anchor, tuple(points))


def records(night: Night) -> list[dict[str, Any]]:
    """The cells for JSON."""
    return [
        {
            "row": cell.row.name,
            "model": cell.model.name,
            "run": cell.run and cell.run.run_id,
            "verdict": cell.verdict,
            "problem": cell.problem,
            "gate": cell.gated and cell.gated.as_record(),
            "anchor": cell.anchor and cell.anchor.verdict,
        }
        for cell in night.cells
    ]
