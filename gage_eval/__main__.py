"""``python -m gage_eval``: the command line."""

from gage_eval.cli import main

if __name__ == "__main__":
    main()
