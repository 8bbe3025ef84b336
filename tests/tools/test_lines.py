"""Lines of code are those that are neither blank, comment nor docstring."""

from tools.lines import code_lines

MODULE = '''"""A docstring
of two lines."""

# A comment.
def f(x: int) -> str:
    """What it does."""

    return (
        f"{x}"  # and why
    )


TEXT = """
kept
"""
'''


def test_blank_lines_comments_and_docstrings_do_not_count() -> None:
    assert code_lines(MODULE) == 4 + 3
