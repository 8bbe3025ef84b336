"""``python -m bench.gate``: simulate the gate on models that are known to be equal or worse, and write the page.

Every verdict is that of the gate's own functions. Seeds are fixed, so that the page says the same each time.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gage_eval.scoring.metrics.aggregations.base import CountedRows, find_aggregation
from gage_eval.stats.evidence import PairedRows, evidence
from gage_eval.stats.gate_rule import GateRule
from gage_eval.stats.intervals import t_quantile
from gage_eval.stats.paired_bootstrap import PairedNumbers
from gage_eval.stats.sequential import alarm, promise
from gage_eval.stats.verdicts import decide

PAGE = Path(__file__).parents[1] / "docs" / "gate-simulations.md"
STRICT = GateRule(tolerance=0)
NIGHTS = 10_000
HISTORIES = 1_000
NUMBER_NIGHTS = 1_000
_YEAR = 365

_TEXT = """# How often the gate is wrong

Simulated nights of models that are known to be equal, or worse by a known amount. Each night's verdict is that of the
gate's own functions. To simulate again (about ten minutes): `.venv/bin/python -m bench.gate`.

## One night

In the rows that should be at most 6 %, nothing has changed. The share is that of false alarms, at tolerance 0 and a
level of 5 %. With fewer than 25 discordant pairs the test is cautious. In the last rows the model is 3 points worse,
and the tolerance is the default of 0.02.

{cases}

## Repeats of the baseline

False alarms at tolerance 0, with 500 rows, by the noise between runs as a part of the noise of rows. In the last
column there is no noise between runs, and the model is 8 points worse. With one or two repeats the gate cannot know
this noise, and says so. With three it is cautious, because three runs say little about noise: that costs power. Five
are recommended.

{repeats}

## Numbers that are not means

A median, F1 or BLEU is computed again from samples (or clusters) that are drawn with replacement, the same for both
runs. {numbers_nights:,} nights each, at tolerance 0 and a level of 5 %. The gate reads the percentiles of the draws.
*Student* says how many false alarms the standard error of the draws with Student's t would give instead: too many for
a median of whole numbers, which jumps.

{numbers}

## A year

{histories:,} years of 365 nights, with 200 rows, one baseline of 5 repeats in each year, and a model that never
changes. The nightly verdict says *regressed* at least once in {regressed:.0%} of the years: every night meets the luck
of the same baseline. The alarm rings in {rings:.1%} of the years.

{promise}

## Power

How often the gate finds a drop, at the default tolerance of 0.02, in 500 nights each. The rows say how many samples
there are, and which share of them one run has right and the other one wrong. A drop of just the tolerance is
found in about half of the nights, however many rows there are.

{power}
"""

Make = Callable[[np.random.Generator], PairedRows]


@dataclass(frozen=True)
class Case:
    """A situation and what the gate should do in it.

    Attributes:
        text: in words.
        make: one night's rows.
        rule: tolerance and level.
        verdict: which verdict is counted.
        low, high: the share of nights that it should have.
        nights: how many are simulated.
    """

    text: str
    make: Make
    rule: GateRule
    verdict: str
    low: float
    high: float
    nights: int = NIGHTS


def right_or_wrong(n: int, discordance: float, drop: float = 0.0) -> Make:
    """0/1 answers: each pair is discordant with a probability, and the current run loses ``drop`` on average."""
    worse = (discordance + drop) / 2

    def make(rng: np.random.Generator) -> PairedRows:
        draw = rng.random(n)
        baseline = np.where(draw < worse, 1.0, np.where(draw < discordance, 0.0, 1.0))
        current = np.where(draw < worse, 0.0, 1.0)
        return PairedRows(current, baseline[None], binary=True)

    return make


def clustered(clusters: int, size: int = 20) -> Make:
    """0/1 answers in clusters that move together, by an effect that favours either run with the same chance."""
    codes = np.repeat(np.arange(clusters), size)

    def make(rng: np.random.Generator) -> PairedRows:
        share = np.clip(0.6 + 0.15 * rng.standard_normal(clusters), 0.02, 0.98)
        other = np.clip(share + 0.2 * rng.standard_normal(clusters), 0.0, 1.0)
        a, b = ((rng.random(codes.size) < rate[codes]).astype(float) for rate in (share, other))
        swapped = (rng.random(clusters) < 0.5)[codes]
        return PairedRows(np.where(swapped, a, b), np.where(swapped, b, a)[None], clusters=codes, binary=True)

    return make


def repeated(n: int, repeats: int, shock: float, drop: float = 0.0) -> Make:
    """0/1 answers of R + 1 runs, each moved as a whole by ``shock`` times the standard error of a run's mean.

    The rate of the current run is lower by ``drop``.
    """

    def make(rng: np.random.Generator) -> PairedRows:
        rate = rng.beta(2, 2, n)
        error = float(np.sqrt((rate * (1 - rate)).mean() / n)) * shock
        moved = error * rng.standard_normal(repeats + 1)
        moved[0] -= drop
        runs = (rng.random((repeats + 1, n)) < np.clip(rate + moved[:, None], 0, 1)).astype(float)
        return PairedRows(runs[0], runs[1:])

    return make


def rare_gains(n: int) -> Make:
    """One row in a hundred gains much, all others lose a little: no difference on average."""

    def make(rng: np.random.Generator) -> PairedRows:
        return PairedRows(np.where(rng.random(n) < 0.01, 0.99, -0.01), np.zeros((1, n)))

    return make


CASES = (
    *(
        Case(f"n = {n:,}, {share:.0%} discordant: {n * share:.0f} pairs", right_or_wrong(n, share), STRICT,
             "regressed", 0.04 if n * share >= 25 else 0.0, 0.06)
        for n, share in ((250, 0.10), (500, 0.05), (1000, 0.05), (2000, 0.10), (100, 0.10), (100, 0.05))
    ),
    *(Case(f"{c} clusters of 20 rows", clustered(c), STRICT, "regressed", 0.0, 0.06) for c in (10, 20, 50)),
    Case("R = 5, no noise between runs, n = 500", repeated(500, 5, 0.0), STRICT, "regressed", 0.0, 0.06),
    Case("R = 5, noise between runs as large as row noise, n = 500", repeated(500, 5, 1.0), STRICT, "regressed",
         0.0, 0.06),
    Case("rare large gains against small losses, n = 500", rare_gains(500), STRICT, "regressed", 0.0, 0.06),
    *(
        Case(f"a drop of 3 points, n = 2,000, {share:.0%} discordant", right_or_wrong(2000, share, 0.03), GateRule(),
             "regressed", 0.90, 1.0, nights=2000)
        for share in (0.03, 0.05, 0.10)
    ),
)  # fmt: skip


@dataclass(frozen=True)
class NumberCase:
    """A number that is not a mean, without a change and with a loss.

    Attributes:
        text: in words.
        make: one night's rows, by the size of the change.
        loss: a change.
        loss_text: in words.
    """

    text: str
    make: Callable[[float], Make]
    loss: float
    loss_text: str


def medians(n: int, *, whole: bool = False) -> Callable[[float], Make]:
    """The median of seconds (lognormal), or of whole numbers (Poisson); the current run's are longer by a factor."""
    median = find_aggregation("median")

    def of_change(slower: float) -> Make:
        def make(rng: np.random.Generator) -> PairedRows:
            if whole:
                rate = rng.gamma(2, 4, n)
                runs = [rng.poisson(rate * factor).astype(np.float64) for factor in (1, 1 + slower)]
            else:
                level = rng.lognormal(3, 0.8, n)
                runs = [level * rng.lognormal(0, 0.3, n) * factor for factor in (1, 1 + slower)]
            recounts = [median.recount(CountedRows(np.arange(n), values)) for values in runs]
            numbers = PairedNumbers(recounts[1], [recounts[0]])
            return PairedRows(runs[1], runs[0][None], higher_is_better=False, numbers=numbers)

        return make

    return of_change


def f1_scores(n: int, clusters: int | None = None) -> Callable[[float], Make]:
    """Macro-F1 of four classes, half to one in twenty of the rows each; the current run is right less often."""
    macro_f1, names = find_aggregation("macro_f1"), list("abcd")
    codes = None if clusters is None else np.repeat(np.arange(clusters), n // clusters)

    def of_change(drop: float) -> Make:
        def make(rng: np.random.Generator) -> PairedRows:
            true = rng.choice(4, n, p=(0.5, 0.3, 0.15, 0.05))
            rate = rng.beta(2, 1, n)
            if codes is not None and clusters is not None:
                rate = np.clip(0.65 + 0.2 * rng.standard_normal(clusters), 0.05, 0.95)[codes]
            recounts, runs = [], []
            for lost in (0.0, drop):
                said = np.where(rng.random(n) < np.clip(rate - lost, 0, 1), true, rng.integers(0, 4, n))
                references, answers = ([names[at] for at in classes.tolist()] for classes in (true, said))
                runs.append((said == true).astype(np.float64))
                rows = CountedRows(np.arange(n), runs[-1], categories=answers, references=references)
                recounts.append(macro_f1.recount(rows))
            numbers = PairedNumbers(recounts[1], [recounts[0]])
            return PairedRows(runs[1], runs[0][None], clusters=codes, numbers=numbers)

        return make

    return of_change


def bleu_scores(n: int) -> Callable[[float], Make]:
    """Corpus BLEU of sentences of 8 to 39 words; the current run's words are right less often."""
    bleu = find_aggregation("corpus_bleu")

    def of_change(drop: float) -> Make:
        def make(rng: np.random.Generator) -> PairedRows:
            length, rate = rng.integers(8, 40, n), rng.beta(8, 4, n)
            recounts = []
            for lost in (0.0, drop):
                words = np.maximum(4, length + rng.integers(-2, 3, n))
                totals = [words - order for order in range(4)]
                hits = [rng.binomial(total, np.clip(rate - lost, 0, 1) ** (k + 1)) for k, total in enumerate(totals)]
                terms = np.stack([*hits, *totals, words, length], axis=1).astype(np.float64)
                recounts.append(bleu.recount(CountedRows(np.arange(n), np.zeros(n), terms=terms)))
            return PairedRows(np.zeros(n), np.zeros((1, n)), numbers=PairedNumbers(recounts[1], [recounts[0]]))

        return make

    return of_change


NUMBER_CASES = (
    NumberCase("median of seconds, n = 200", medians(200), 0.15, "15 % slower"),
    NumberCase("median of seconds, n = 1,000", medians(1000), 0.10, "10 % slower"),
    NumberCase("median of whole numbers, n = 500", medians(500, whole=True), 0.20, "20 % more"),
    NumberCase("macro-F1, n = 200", f1_scores(200), 0.15, "15 points fewer right"),
    NumberCase("macro-F1, n = 1,000", f1_scores(1000), 0.08, "8 points fewer right"),
    NumberCase("macro-F1, 20 clusters of 20 rows", f1_scores(400, 20), 0.12, "12 points fewer right"),
    NumberCase("BLEU, n = 100", bleu_scores(100), 0.02, "2 points fewer words right"),
    NumberCase("BLEU, n = 500", bleu_scores(500), 0.01, "1 point fewer words right"),
)


def number_shares(case: NumberCase, seed: int, nights: int = NUMBER_NIGHTS) -> tuple[float, float, float]:
    """The shares of nights that are called worse: without a change, with Student's t instead, and with the loss."""
    rng = np.random.default_rng(seed)
    false = students = found_worse = 0
    for _ in range(nights):
        rows = case.make(0.0)(rng)
        numbers = evidence(rows)
        false += decide({"metric": numbers}, STRICT)["metric"].verdict == "regressed"
        units = rows.n if rows.clusters is None else int(rows.clusters.max()) + 1
        t = (numbers.difference or 0.0) / numbers.stderr if numbers.stderr else 0.0
        students += t < -t_quantile(0.95, units - 1)
        worse = evidence(case.make(case.loss)(rng))
        found_worse += decide({"metric": worse}, STRICT)["metric"].verdict == "regressed"
    return false / nights, students / nights, found_worse / nights


def numbers_table(seed: int) -> Iterator[str]:
    """False alarms and power of numbers that are not means."""
    yield "| number | false alarms | Student | loss | found |"
    yield "|---|---|---|---|---|"
    for case in NUMBER_CASES:
        false, students, power = number_shares(case, seed)
        yield f"| {case.text} | {false:.1%} | {students:.1%} | {case.loss_text} | {power:.0%} |"


def share_of(case: Case, seed: int) -> float:
    """The share of nights with the verdict that the case counts."""
    rng = np.random.default_rng(seed)
    hits = 0
    for _ in range(case.nights):
        numbers = evidence(case.make(rng), alpha=case.rule.alpha)
        hits += decide({"metric": numbers}, case.rule)["metric"].verdict == case.verdict
    return hits / case.nights


def case_row(case: Case, share: float) -> str:
    """A case's row of the page; ``!`` marks a share out of its bounds."""
    mark = "" if case.low <= share <= case.high else " !"
    return f"| {case.text} | {case.nights:,} | {case.verdict} | {case.low:.0%} to {case.high:.0%} | {share:.1%}{mark} |"


def nights_of(n: int, repeats: int, seed: int) -> tuple[float, float]:
    """The alarm and the nightly verdict of a model that never changes: the shares of years in which each rings."""
    rng = np.random.default_rng(seed)
    rings = regressed = 0
    for _ in range(HISTORIES):
        rate = rng.beta(2, 2, n)
        baseline = (rng.random((repeats, n)) < rate).astype(float)
        ever, rang = False, False
        for night in (rng.random((_YEAR, n)) < rate).astype(float):
            numbers = evidence(PairedRows(night, baseline))
            ever = ever or decide({"metric": numbers}, STRICT)["metric"].verdict == "regressed"
            rang = rang or alarm(numbers, STRICT, year=2027, repeats=repeats).rings
        rings += rang
        regressed += ever
    return rings / HISTORIES, regressed / HISTORIES


def power_table(seed: int) -> Iterator[str]:
    """How often a drop is found, by rows, drop and discordance."""
    yield "| rows | discordant | drop 2 points | 3 points | 5 points | 10 points |"
    yield "|---|---|---|---|---|---|"
    yield from (power_row(n, share, seed) for n in (200, 500, 1000, 2000, 5000) for share in (0.10, 0.20))


def power_row(n: int, discordance: float, seed: int) -> str:
    """How often each drop is found with so many rows."""
    makes = [right_or_wrong(n, discordance, drop) for drop in (0.02, 0.03, 0.05, 0.10)]
    cases = [Case("", make, GateRule(), "regressed", 0, 1, nights=500) for make in makes]
    return f"| {n:,} | {discordance:.0%} | {' | '.join(f'{share_of(case, seed):.0%}' for case in cases)} |"


def repeats_table(seed: int) -> Iterator[str]:
    """False alarms with noise between runs, and how often a drop is found without, by repeats of the baseline."""
    yield "| repeats | no noise | half as large | as large | twice as large | drop found |"
    yield "|---|---|---|---|---|---|"
    for repeats in (1, 2, 3, 4, 5, 10):
        makes = [*(repeated(500, repeats, shock) for shock in (0.0, 0.5, 1.0, 2.0)), repeated(500, repeats, 0.0, 0.08)]
        cases = [Case("", make, STRICT, "regressed", 0, 1, nights=4000) for make in makes]
        yield f"| {repeats} | {' | '.join(f'{share_of(case, seed):.1%}' for case in cases)} |"


def main() -> int:
    """Simulate, and write the page; 1 when a share is out of its bounds."""
    parser = argparse.ArgumentParser(prog="python -m bench.gate", description="Simulate the gate.")
    parser.add_argument("--seed", type=int, default=1)
    seed = parser.parse_args().seed
    lines = ["| situation | nights | verdict | should be | is |", "|---|---|---|---|---|"]
    missed = 0
    for number, case in enumerate(CASES):
        share = share_of(case, seed + number)
        missed += not case.low <= share <= case.high
        lines.append(case_row(case, share))
        print(lines[-1])
    rings, regressed = nights_of(200, 5, seed)
    missed += rings > 0.05
    print(f"alarm in {rings:.1%} of years, nightly verdict in {regressed:.1%}")
    text = _TEXT.format(
        cases="\n".join(lines),
        histories=HISTORIES,
        regressed=regressed,
        rings=rings,
        promise=promise(GateRule()),
        repeats="\n".join(repeats_table(seed)),
        numbers_nights=NUMBER_NIGHTS,
        numbers="\n".join(numbers_table(seed)),
        power="\n".join(power_table(seed)),
    )
    PAGE.write_text(text, encoding="utf-8")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
