"""A gate policy: which numbers decide, which decide together, and which only speak.

critical     one that regresses fails the run
supporting   the run fails if at least ``supporting_regressions`` of them regress
advisory     never fails a run
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import Field, model_validator

from gage_eval.base.errors import ConfigError, NotFound, Problem
from gage_eval.base.strict_model import StrictModel
from gage_eval.config.files import read_config
from gage_eval.config.model_of import model_of
from gage_eval.config.yaml.lines import parse
from gage_eval.runs.results.outcomes import Measure
from gage_eval.stats.gate_rule import GateRule, Mode
from gage_eval.stats.verdicts import MetricVerdict, Verdict

Tier: TypeAlias = Literal["critical", "supporting", "advisory"]
TIERS: tuple[Tier, ...] = get_args(Tier)


class PolicyMetric(StrictModel):
    """A number of a policy.

    Attributes:
        metric: its name, as the table prints it.
        task: of this task; of every task that has it by default.
        tolerance, alpha, mode: its own, in place of the gate's.
    """

    metric: str = Field(min_length=1)
    task: str | None = None
    tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    alpha: Annotated[float, Field(gt=0, lt=0.5)] | None = None
    mode: Mode | None = None

    @model_validator(mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return {"metric": value} if isinstance(value, str) else value

    def rule(self, default: GateRule) -> GateRule:
        """The gate's rule with what this number has of its own."""
        return default.model_copy(update=self.model_dump(include={"tolerance", "alpha", "mode"}, exclude_none=True))


class GatePolicy(StrictModel):
    """What a policy file holds.

    Attributes:
        critical, supporting, advisory: the numbers of each tier.
        supporting_regressions: so many supporting numbers must regress to fail the run.
        require_evidence: an inconclusive verdict fails the run, too.
    """

    critical: list[PolicyMetric] = Field(default=[])
    supporting: list[PolicyMetric] = Field(default=[])
    advisory: list[PolicyMetric] = Field(default=[])
    supporting_regressions: int = Field(2, ge=1)
    require_evidence: bool = False

    @classmethod
    def read(cls, file: Path) -> "GatePolicy":
        """The policy of a YAML file.

        Raises:
            InputError: it cannot be read, or has values that are not allowed; all problems at once.
        """
        policy, document = model_of(parse(read_config(file, what="policy"), str(file)), str(file), cls)
        if problems := list(policy.problems()):
            raise ConfigError(document.source, problems)
        return policy

    def of_tier(self, tier: Tier) -> list[PolicyMetric]:
        """The numbers of a tier."""
        numbers: list[PolicyMetric] = getattr(self, tier)
        return numbers

    def problems(self) -> Iterator[Problem]:
        """What is wrong with the policy as a whole."""
        if not self.critical and not self.supporting:
            yield Problem("", "no metric is critical or supporting, so nothing could fail: name one under critical.")
        first: dict[tuple[str | None, str], str] = {}
        for tier in TIERS:
            for at, number in enumerate(self.of_tier(tier)):
                place = f"{tier}[{at}]"
                before = first.setdefault((number.task, number.metric), place)
                if before != place:
                    yield Problem(place, f"'{number.metric}' is in {before} already: keep one.")


@dataclass(frozen=True)
class Declared:
    """A number that the gate looks at.

    Attributes:
        task_id: its task.
        metric: its name as it is printed; None for the task's first.
        rule: tolerance, level and mode.
        tier: of a policy; None without one.
    """

    task_id: str
    metric: str | None
    rule: GateRule
    tier: Tier | None = None

    @property
    def with_test(self) -> "Declared":
        """The same, decided by a test where its mode is exact."""
        is_exact = self.rule.mode == "exact"
        return replace(self, rule=self.rule.model_copy(update={"mode": "significance"})) if is_exact else self


def declared_numbers(
    policy: GatePolicy | None,
    rule: GateRule,
    tasks: Sequence[str],
    number_of: Callable[[str, str], Measure],
    metric: str | None = None,
) -> list[Declared]:
    """The numbers of a policy in the tasks of a run, critical ones first; without a policy, one of each task.

    Args:
        policy: the policy.
        rule: of numbers without one of their own.
        tasks: those of the baseline.
        number_of: a task's number by its name; raises `NotFound`.
        metric: without a policy, which number; each task's first by default.

    Raises:
        ConfigError: no task has such a number, two tiers have the same one, or there are fewer supporting numbers than
            must regress; all problems at once.
    """
    if policy is None:
        return [Declared(task_id, metric, rule) for task_id in tasks]
    problems: list[Problem] = list(policy.problems())
    numbers: dict[tuple[str, str], Declared] = {}
    for tier in TIERS:
        for at, entry in enumerate(policy.of_tier(tier)):
            place, why = f"{tier}[{at}]", ""
            there: list[str] = []
            if entry.task is not None and entry.task not in tasks:
                why = f"no task '{entry.task}' in the baseline: {', '.join(tasks)}."
            else:
                for task_id in tasks if entry.task is None else [entry.task]:
                    try:
                        name = number_of(task_id, entry.metric).name
                    except NotFound as error:
                        why = why or str(error)
                        continue
                    there.append(task_id)
                    declared = Declared(task_id, name, entry.rule(rule), tier)
                    before = numbers.setdefault((task_id, name), declared)
                    if before.tier != tier:
                        problems.append(Problem(place, f"{name} of task '{task_id}' is {before.tier} already."))
            if why and not there:
                problems.append(Problem(place, why))
    supporting = sum(number.tier == "supporting" for number in numbers.values())
    if policy.supporting and supporting < policy.supporting_regressions and not problems:
        needed = policy.supporting_regressions
        problems.append(
            Problem(
                "supporting_regressions",
                f"{needed} supporting metrics must regress, and there are only {supporting}: write a smaller number, "
                "or make them critical.",
            )
        )
    if problems:
        raise ConfigError("the gate policy", problems)
    return list(numbers.values())


def deciding(
    policy: GatePolicy | None,
    tiers: Sequence[Tier | None],
    verdicts: Sequence[MetricVerdict],
    *,
    counts: Callable[[MetricVerdict], bool],
) -> list[int]:
    """Positions of the numbers for which something holds that the run as a whole then has.

    Args:
        policy: None where every number is critical.
        tiers, verdicts: of each number.
        counts: what must hold.
    """
    those = [(at, tier) for at, (tier, verdict) in enumerate(zip(tiers, verdicts, strict=True)) if counts(verdict)]
    together = sum(tier == "supporting" for _, tier in those)
    enough = policy is not None and together >= policy.supporting_regressions
    return [at for at, tier in those if tier in (None, "critical") or (tier == "supporting" and enough)]


def regresses(verdict: MetricVerdict) -> bool:
    """Whether a number regressed."""
    return verdict.verdict == "regressed"


def fails_to_pass(verdict: MetricVerdict) -> bool:
    """Whether a number's own bound does not pass."""
    return not verdict.holds


def improves(verdict: MetricVerdict) -> bool:
    """Whether a number improved."""
    return verdict.verdict == "improved"


def policy_verdict(
    policy: GatePolicy | None,
    tiers: Sequence[Tier | None],
    verdicts: Sequence[MetricVerdict],
    unwatched: Collection[str] = (),
) -> Verdict:
    """The verdict on a run: regressed if the policy says so, else inconclusive if as many bounds do not pass.

    Args:
        policy: None where every number is critical.
        tiers, verdicts: of each number.
        unwatched: tasks that the baseline lacks.
    """
    if deciding(policy, tiers, verdicts, counts=regresses):
        return "regressed"
    if not verdicts or unwatched or deciding(policy, tiers, verdicts, counts=fails_to_pass):
        return "inconclusive"
    return "improved" if deciding(policy, tiers, verdicts, counts=improves) else "passed"
