"""Tells how many rows of the official vectors are answered otherwise on purpose."""

import pytest
import vector_differences


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line, whether or not those tests ran: the list is to stay short."""
    lists = [rows for name, rows in vars(vector_differences).items() if name.isupper() and isinstance(rows, dict)]
    listed = sum(map(len, lists))
    terminalreporter.write_line(f"vector_differences.py lists {listed} rows of the official vectors.")
