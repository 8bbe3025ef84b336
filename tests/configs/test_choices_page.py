"""What the page on choices shows works as it stands."""

import re
from pathlib import Path

import orjson

import gage_eval


def test_mmmu_pros_published_rows_are_scored_by_the_config_that_the_page_shows(repo_root: Path, tmp_path: Path) -> None:
    rows = [orjson.loads(line) for line in (repo_root / "docs/vectors/mmmu_pro.jsonl").read_bytes().splitlines()]
    rows = [row for row in rows if isinstance(row["response"], str)]
    published = [
        {
            "id": row["id"],
            "question": "Which of these is shown in <image 1>?",
            "options": str(row["options"]),
            "answer": row["answer"],
            "subject": ("Art", "Math")[place % 2],
            "response": row["response"],
        }
        for place, row in enumerate(rows)
    ]
    (tmp_path / "answers.jsonl").write_bytes(b"\n".join(map(orjson.dumps, published)))
    (config,) = re.findall(
        r"^```yaml\n(.*?)^```", (repo_root / "docs/choices.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    (tmp_path / "config.yaml").write_text(config, encoding="utf-8")

    run = gage_eval.run(str(tmp_path / "config.yaml"), store=str(tmp_path / "store"), inline=True)

    (task,) = run.summary.tasks
    drawn = sum(row["random_draw"] for row in rows)
    right = sum(row["expected_correct"] is True for row in rows)
    (score,) = task.metrics
    assert (score.n, score.unparsed) == (len(rows), drawn)
    # What is drawn depends on the ids, so those that were drawn right are only bounded.
    assert right <= round(score.value * len(rows)) <= right + drawn
    assert {score.slice_value for score in task.slices} == {"Art", "Math"}
