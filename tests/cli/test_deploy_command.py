"""gage deploy, before it asks a server."""

from pathlib import Path

from tests.cli.conftest import Gage


def test_mistakes_of_a_file_of_nightly_runs_are_told_without_a_server(gage: Gage, tmp_path: Path) -> None:
    file = tmp_path / "nightly.yaml"
    file.write_text("name: every-night\nschedul: {cron: 0 2 * * *}\n", encoding="utf-8")
    said = gage("deploy", "--nightly", str(file))
    assert said.code == 2
    assert "schedul" in said.err
    assert "PREFECT_API_URL" not in said.err
