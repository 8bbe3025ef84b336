"""results.json as tables: on the terminal and as docs/benchmarks.md."""

from typing import Any

_HEAD = """# Benchmarks

What a run costs, measured against the targets, one section per machine.

- The endpoint is a mock on the loopback address (`bench/mock_endpoint.py`).
- The *bare loop* (`bench/bare_client.py`) sends the same requests and does nothing else. It takes turns with our runs.
- CPU seconds and peak memory are those of the whole process, from the command to the table of scores.
- A figure is the median. The smallest and the largest value are in brackets.
- A load average well above zero means that others used the machine. Wall times are then too long; CPU seconds and
  ratios suffer less.
- Targets in seconds were set on one machine. On another machine, compare the figures of the bare loop first.

`make bench` measures again and writes this page and `bench/results.json`. `make bench BENCH=quick` measures only the
short cases and writes nothing. `make bench BENCH=full` adds the cases with a million rows.
"""


def page(results: dict[str, Any]) -> str:
    """docs/benchmarks.md."""
    lines = [_HEAD.rstrip()]
    for machine in results["machines"]:
        lines += _of_machine(machine["machine"], machine["cases"])
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
