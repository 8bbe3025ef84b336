"""What one shows to colleagues: the same numbers as Markdown, LaTeX, CSV and figures, safe to open."""

import csv
import io
from pathlib import Path

import pytest

from gage_eval.base.errors import InputError, NotInstalled
from gage_eval.report.figures import Mark, interval_figure
from gage_eval.runs.results.publication import Publication, check_formats

FORMULA = "=HYPERLINK(\"http://a\",'b')"


def publication(**changes: object) -> Publication:
    values = {
        "title": FORMULA,
        "header": ("model", "score"),
        "rows": [(FORMULA, "0.5"), (), ("<img src=x onerror=alert(1)>|", "0.6")],
        "records": [{"model": FORMULA, "score": 0.5}, {"model": "-1+1", "score": None, "run": "a"}],
        "figure": lambda: interval_figure("t", [("p", [Mark(FORMULA, 0.5)])]),
        "notes": ["[x](javascript:alert(1))"],
    }
    return Publication(**{**values, **changes})  # type: ignore[arg-type]


def test_each_file_is_in_the_format_of_its_name(tmp_path: Path) -> None:
    files = [tmp_path / f"new/t{suffix}" for suffix in (".md", ".tex", ".csv", ".svg", ".png")]
    publication().write(files)
    md, tex, numbers, svg, png = (file.read_bytes() for file in files)
    rows = list(csv.DictReader(io.StringIO(numbers.decode())))
    assert [row["model"][0] for row in rows] == ["'", "'"], "no spreadsheet runs a name"
    assert (rows[0]["score"], rows[1]["score"], rows[1]["run"]) == ("0.5", "", "a")
    assert b"\\<img src=x" in md
    assert b"\\|" in md
    assert b"\\[x\\](" in md
    assert b"\\begin{tabular}{ll}" in tex
    assert svg.startswith(b"<svg xmlns=")
    assert png.startswith(b"\x89PNG")


def test_what_cannot_be_written_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"\.tex"):
        check_formats([tmp_path / "t.docx"])
    with pytest.raises(InputError, match="no figure"):
        publication(figure=None).write([tmp_path / "t.svg"])
    with pytest.raises(InputError, match="no number"):
        publication(figure=lambda: "").write([tmp_path / "t.svg"])
    (tmp_path / "file").write_text("")
    for name in ("file/t.md", "file/t.png"):
        with pytest.raises(InputError, match="cannot be written"):
            publication().write([tmp_path / name])
    monkeypatch.setitem(__import__("sys").modules, "resvg_py", None)
    with pytest.raises(NotInstalled, match=r"resvg-py.*\[figures\]"):
        check_formats([tmp_path / "t.png"])
