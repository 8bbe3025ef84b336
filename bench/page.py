"""results.json as tables: on the terminal and as docs/benchmarks.md."""

from typing import Any

_HEAD = """# Benchmarks

What a run costs, measured against the targets by `make bench`, machine by machine. The endpoint is the mock of
`bench/mock_endpoint.py` on loopback; the bare loop is `bench/bare_client.py`, which sends the same requests and does
nothing else; the two take turns in one run. CPU seconds and peak memory are those of the whole process, from the
command to the score table. Figures are medians; in brackets the smallest and the largest. A load average well above
zero before a case means that others used the machine: its wall times are too long, CPU seconds and ratios suffer less.
Targets in seconds are those of the machine they were set on; the bare loop's own figures tell how fast another one is.

`make bench` measures anew and writes this page and `bench/results.json`; `make bench BENCH=quick` measures the short
cases and writes neither; `make bench BENCH=full` adds the cases of a million rows.
"""


def page(results: dict[str, Any]) -> str:
    """docs/benchmarks.md."""
    lines = [_HEAD.rstrip()]
    for one in results["machines"]:
        lines += _of_machine(one["machine"], one["cases"])
    return "\n".join(lines) + "\n"


def _of_machine(machine: dict[str, Any], cases: list[dict[str, Any]]) -> list[str]:
    packages = ", ".join(f"{name} {number}" for name, number in sorted(machine["packages"].items()))
    lines = [
        "",
        f"## {machine['cores']} cores of {machine['cpu']}, {machine['memory_gib']} GiB",
        "",
        f"{machine['system']}, Python {machine['python']}, {packages}.",
    ]
    for case in cases:
        lines += ["", f"### {case['title']}", "", "| | measured | target | |", "|---|---|---|---|"]
        lines += [f"| {' | '.join(cells(figure))} |" for figure in case["figures"]]
        lines += [
            "",
            f"{_times(case)}, {case['date']}, commit {case['commit']}, load average before {case['load_before']:g}.",
        ]
    return lines


def table(case: dict[str, Any]) -> str:
    """One case for a terminal."""
    lines = [case["title"]]
    for figure in case["figures"]:
        name, measured, target, met = cells(figure)
        lines.append(f"  {name:<42} {measured:<44} {target:<10} {met}".rstrip())
    return "\n".join(lines)


def cells(figure: dict[str, Any]) -> tuple[str, str, str, str]:
    """Name, measurement, target and whether it is met, as a table shows them."""
    middle, unit = _number(figure["median"]), figure["unit"]
    measured = f"{middle} {unit}"
    if figure["repeats"] > 1:
        measured += f" ({_number(figure['min'])}–{_number(figure['max'])})"
    bound, _, value = (figure["target"] or "").partition(" ")
    target = f"{bound} {_number(float(value))}" if value else ""
    return figure["name"], measured, target, {True: "met", False: "**missed**", None: ""}[figure["met"]]


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"


def _times(case: dict[str, Any]) -> str:
    repeats = max(figure["repeats"] for figure in case["figures"])
    return "Measured once" if repeats == 1 else f"Measured {repeats} times"
