"""The templates of our pages, report.html and the viewer's, with the filters that both use."""

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from gage_eval.report import charts
from gage_eval.report.console import score_text
from gage_eval.report.details import ComparedTask
from gage_eval.report.messages import trimmed
from gage_eval.report.run_view import problems
from gage_eval.report.sample_view import KINDS, Tone, folded
from gage_eval.report.summary import GroupScore, MetricSummary, format_value, p_text, signed_ends, signed_text

if TYPE_CHECKING:
    from jinja2 import Environment
    from jinja2.bccache import Bucket, BytecodeCache

STYLE_FILE = Path(__file__).parent / "templates" / "report.css"
"""The stylesheet; the viewer begins with it too."""

VERDICT_TONES: Mapping[str, Tone] = {"regressed": "bad", "improved": "good", "passed": "good", "inconclusive": "warn"}

_LONGEST_TEXT = 160
# Marks that override the direction of what follows them, also outside of the text that they are in.
_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")
_KINDS: Mapping[str, tuple[str, str]] = dict(KINDS.items())


def page_environment(folder: Path, **filters: Callable[..., Any]) -> "Environment":
    """The templates of a folder.

    Args:
        folder: of the templates, which may import those of the report.
        filters: those of these pages alone, by name.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([folder, STYLE_FILE.parent]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=_compiled(),
    )
    environment.filters.update(
        bars=charts.bars,
        change=change_chip,
        change_tone=change_tone,
        clip=clip,
        ends=ends_text,
        folded=folded,
        interval=charts.interval,
        marked=marked,
        meaning=lambda kind: _KINDS.get(kind, ("plain", ""))[1],
        number=lambda count: f"{count:,}",
        p=p_text,
        problems=problems,
        score=score_text,
        shares=kind_shares,
        signed=signed_text,
        signed_ends=signed_ends,
        strip=charts.strip,
        tone=_tone,
        value=_finite,
        when=_when,
        **filters,
    )
    return environment


def clip(text: object, limit: int = _LONGEST_TEXT) -> str:
    """A text of at most that many characters, which cannot turn the words next to it around."""
    return _TURNS.sub("\N{REPLACEMENT CHARACTER}", trimmed(str(text), limit))


def kind_shares(kinds: Mapping[str, int]) -> list[tuple[str, str, float]]:
    """Counts of answers by kind as the shares of a strip, the good ones first."""
    order = ("scored", *reversed(list(KINDS)))
    return [(kind, _tone(kind), float(kinds[kind])) for kind in order if kind in kinds]


def _tone(kind: str) -> str:
    return _KINDS.get(kind, ("plain", ""))[0]


def ends_text(score: MetricSummary | GroupScore) -> str:
    """Both ends of the 95 % interval."""
    return " … ".join(map(format_value, score.ends or (None,)))


def change_tone(task: ComparedTask) -> Tone:
    """That of the gate's verdict; without one, ``plain`` unless the interval of the difference leaves out 0."""
    low, high = task.numbers.bounds or (0.0, 0.0)
    return VERDICT_TONES.get(task.verdict, "good" if low > 0 else "bad" if high < 0 else "plain")


def marked(answer: str, extracted: str | None) -> Markup:
    """The answer with the last place of what was read out of it."""
    at = answer.rfind(extracted) if extracted else -1
    if extracted is None or at < 0:
        return escape(answer)
    end = at + len(extracted)
    return Markup("{}<mark>{}</mark>{}").format(answer[:at], extracted, answer[end:])


def change_chip(task: ComparedTask) -> Markup:
    """The change as a chip: red for a loss beyond chance, green for a gain."""
    text = f"{signed_text(task.numbers.difference)} {task.verdict}".strip()
    return Markup('<span class="chip {}">{}</span>').format(change_tone(task), text)


def _when(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def _finite(value: float | None) -> str:
    return "–" if value is None or not math.isfinite(value) else format_value(value)


def _compiled() -> "BytecodeCache | None":
    """Where Jinja keeps compiled templates: a folder that only this user can write, or nothing where there is none.

    To compile them takes 50 ms of a run that may take one second.
    """
    from jinja2.bccache import FileSystemBytecodeCache

    class Cache(FileSystemBytecodeCache):
        def dump_bytecode(self, bucket: "Bucket") -> None:
            # A full disk must not cost the report.
            with suppress(OSError):
                super().dump_bytecode(bucket)

    try:
        return Cache()
    except (OSError, RuntimeError):
        return None
