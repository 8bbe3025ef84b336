"""The pictures of docs/images are those that the script takes, and each of them is shown."""

from pathlib import Path

from tools.pictures import IMAGES, PICTURES


def test_every_picture_is_taken_by_the_script_and_shown(repo_root: Path) -> None:
    taken = sorted(name for names in PICTURES for name in names)
    pages = [repo_root / "README.md", *(repo_root / "docs").rglob("*.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)

    assert sorted(file.stem for file in IMAGES.iterdir()) == taken
    assert [name for name in taken if f"images/{name}.png)" not in text] == []
