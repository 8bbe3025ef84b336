"""Entry point: commands, and the one place where errors become sentences and exit codes.

Exit codes: 0 ok, 1 the run failed, 2 the input cannot be used, 3 a gate failed, 130 interrupted, 143 terminated.
"""

import importlib
import io
import os
import signal
import sys
from typing import Annotated, NoReturn

import typer

from gage_eval.errors import GageError

INTERRUPTED = 130

FIRST_STEPS = """Evaluate models; every step cached, every number with its error bar.

  gage suite demo              run the built-in demo on this machine's CPU
  gage validate my.yaml        check a config
  gage preview my.yaml -n 3    see the requests before any is sent
  gage run my.yaml             run it
  gage show                    look at runs

All commands: gage --help
"""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Evaluate language models as a cached, resumable workflow.",
)

# Modules that add commands to `app`; each imports what it needs when a command is called.
_COMMANDS = ("runs", "score", "inspect", "plan", "show", "export", "cache", "doctor", "servers")


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks; may stand anywhere.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        from gage_eval import __version__

        print(f"gage-eval {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(FIRST_STEPS, end="")


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit."""
    arguments = sys.argv[1:] if argv is None else argv
    terminated: list[int] = []
    if argv is None:
        signal.signal(signal.SIGTERM, lambda number, frame: _stop(terminated, number))
        _make_output_safe()
    try:
        for name in _COMMANDS:
            importlib.import_module(f"gage_eval.cli.{name}")
        app(args=[argument for argument in arguments if argument != "--debug"], prog_name="gage")
    except GageError as error:
        if "--debug" in arguments:
            raise
        from gage_eval.cli.output import readable

        # It may quote a dataset or a file name, with what a terminal would act on.
        print(readable(str(error)), file=sys.stderr)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, SystemExit) as ended:
        if isinstance(ended.__context__, BrokenPipeError):
            # The reader of our output went away; that is its right.
            sys.exit(0)
        # Typer makes an exit of this code out of Ctrl-C.
        if isinstance(ended, SystemExit) and ended.code != INTERRUPTED:
            raise
        print("Interrupted. What was computed is kept.", file=sys.stderr)
        sys.exit(128 + terminated[0] if terminated else INTERRUPTED)


def _make_output_safe() -> None:
    """Let no letter that the terminal's encoding lacks, and no closed standard output, end a command."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - as long as the process
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _stop(terminated: list[int], number: int) -> NoReturn:
    """Unwind like an interruption: the run records its end, engines are stopped."""
    terminated.append(number)
    raise KeyboardInterrupt
