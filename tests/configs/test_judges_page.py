"""The page on judges can be followed as it stands: from its config to a corrected score."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "judges.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_page_leads_from_twelve_lines_to_a_corrected_score(tmp_path: Path) -> None:
    config = re.findall(r"^```yaml\n(datasets:.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[0]
    assert len(config.splitlines()) == 12
    (tmp_path / "judged.yaml").write_text(config)
    commands = "\n".join(re.findall(r"^```bash\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))
    path = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(tmp_path)}
    ended = subprocess.run(
        ["/bin/bash", "-e", "-c", commands], cwd=tmp_path, env=path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    # The truth is 0.6 in the mean; the judge accepts three of ten wrong answers.
    (raw, corrected) = re.findall(r"Raw (0\.\d+), corrected (0\.\d+)", ended.stdout)[-1]
    assert float(raw) > float(corrected)
    # No model is better than the other answers; one is longer.
    long, plain = (re.findall(rf"^{name} .*", ended.stdout, re.MULTILINE)[-1] for name in ("long", "plain"))
    (raw_win, at_equal_length), (plain_win, _) = (re.findall(r"(0\.\d{3}) [±[]", line) for line in (long, plain))
    assert float(raw_win) > 0.65 > float(plain_win)
    assert abs(float(at_equal_length) - 0.5) < 0.1
