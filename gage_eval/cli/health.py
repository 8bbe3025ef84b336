"""gage health: what is wrong with the items of a benchmark."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gage_eval.cli.main import app
from gage_eval.cli.options import AsJson, OutputDir, Store, argument, option
from gage_eval.cli.output import print_json, print_table, say
from gage_eval.cli.places import located

if TYPE_CHECKING:
    from gage_eval.regression.health import Health

# So many reasons for which runs are left out are printed.
_REASONS = 5


@app.command()
def health(
    suite: Annotated[str, argument("SUITE", "A suite, or the name of a config.")],
    kind: Annotated[str | None, option("NAME", "List the findings of a kind, or all with any.")] = None,
    limit: Annotated[int, option("N", "List at most N findings.", "--limit", "-n", min=0)] = 50,
    to: Annotated[Path | None, option("FILE", "Write all findings to a .csv, .jsonl or .parquet file.")] = None,
    store: Store = None,
    output_dir: OutputDir = None,
    json: AsJson = False,
) -> None:
    """Find wrong golds, copies, leaks and noise in a benchmark."""
    from gage_eval.base.errors import check_known
    from gage_eval.regression.health import FINDING_KINDS, table
    from gage_eval.regression.health import health as looked_at
    from gage_eval.runs.results.tabular import write_table

    check_known(kind or "any", ("any", *FINDING_KINDS), "kind of findings")
    wanted = None if kind == "any" else kind
    locations = located(store, output_dir)
    results, skipped = looked_at(locations, suite)
    if to is not None:
        write_table(table(results, wanted), to)
        print(to)
    elif json:
        datasets = [result.as_record(wanted) for result in results]
        print_json({"suite": suite, "datasets": datasets, "left_out": dict(skipped)})
    else:
        for result in results:
            if kind is None:
                _print_counts(result)
            else:
                _print_findings(result, wanted, limit)
        _print_left_out("runs", skipped)
        if kind is None:
            print(f"see them: {locations.command('health', suite, '--kind', 'gold')}")


def _print_counts(result: "Health") -> None:
    from gage_eval.regression.health import MEANINGS
    from gage_eval.report.console import counted

    said = [counted(result.items, "item"), counted(len(result.models), "model")]
    if result.effective is not None:
        said.append(f"effective n {result.effective:,}")
    if result.flip_rate is not None:
        said.append(f"{result.flip_rate:.1%} of scores differ between repeats")
    say(f"{result.dataset_id} · {result.metric}: {', '.join(said)}")
    rows = [(kind, f"{count:,}", MEANINGS[kind]) for kind, count in result.counts.items()]
    print_table(("finding", "items", "what it is"), rows, right=("items",), stack=True)
    models = [
        (vote.name, f"{vote.runs:,}", "–" if vote.score is None else f"{vote.score:.3f}", f"{vote.weight:.2f}")
        for vote in result.models
    ]
    print_table(("model", "runs", "right", "weight"), models, right=("runs", "right", "weight"))
    for sentence in result.lacking:
        print(sentence)
    _print_left_out("answers of runs", result.left_out)


def _print_findings(result: "Health", kind: str | None, limit: int) -> None:
    from gage_eval.report.console import counted

    findings = result.of_kind(kind)
    say(f"{result.dataset_id} · {result.metric}: {counted(len(findings), 'finding')}")
    shown = [finding.as_record() for finding in findings[:limit]]
    if shown:
        names = ("kind", "sample_id", "detail", "gold", "question")
        print_table(names, [tuple(str(record[name]) for name in names) for record in shown], stack=True)
    if len(findings) > len(shown):
        print(f"{len(shown):,} of {len(findings):,} shown; more with -n {len(findings)}, all with --to FILE.csv")


def _print_left_out(what: str, left_out: Mapping[str, int]) -> None:
    reasons = sorted(left_out.items(), key=lambda counted: -counted[1])
    for reason, count in reasons[:_REASONS]:
        say(f"{what} left out: {count:,} ({reason.rstrip('.')})")
    if more := sum(count for _, count in reasons[_REASONS:]):
        print(f"{what} left out for other reasons: {more:,}, with --json")
