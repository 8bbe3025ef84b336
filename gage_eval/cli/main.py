"""Entry point: the commands, and the conversion of errors to messages and exit codes.

Exit codes: 0 ok, 1 the run failed, 2 the input cannot be used, 3 a gate failed, 130 interrupted, 143 terminated.
"""

import importlib
import io
import os
import signal
import sys
from contextlib import suppress
from typing import Annotated

import typer

from gage_eval.base import interrupts
from gage_eval.base.errors import GageError, InputError, is_unicode, visible
from gage_eval.extend.tuning import collect_rarely, let_idle_threads_sleep

INTERRUPTED = 130

FIRST_STEPS = """Evaluate models; every step cached, every number with its error bar.

  gage suite demo              run the built-in demo on this machine's CPU
  gage new --data my.jsonl     write a config for your own data
  gage preview my.yaml -n 3    see the requests before any is sent
  gage run my.yaml             run it
  gage show                    look at runs
  gage view                    look at runs in the browser

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


def command_group(name: str, text: str) -> typer.Typer:
    """The commands that follow a word, such as ``gage cache``; the text says what they do."""
    commands = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=text)
    app.add_typer(commands, name=name)
    return commands


# The commands by the module that adds them to `app`. A run imports only the module of its command; heavy imports are
# inside the commands.
COMMANDS = {
    "runs": ("run", "suite", "resume"),
    "score": ("score",),
    "judge": ("judge",),
    "labels": ("labels",),
    "import_": ("import",),
    "inspect": ("validate", "preview", "list", "schema"),
    "plan": ("plan",),
    "probe": ("probe",),
    "templates": ("distill", "init"),
    "new": ("new",),
    "migrate": ("migrate",),
    "pins": ("pin",),
    "show": ("show",),
    "view": ("view",),
    "compare": ("compare", "diff"),
    "why": ("why",),
    "health": ("health",),
    "gate": ("gate", "baseline"),
    "matrix": ("matrix",),
    "sql": ("sql",),
    "export": ("export",),
    "mcp": ("mcp",),
    "cache": ("cache",),
    "doctor": ("doctor",),
    "servers": ("server",),
    "deploy": ("deploy",),
    "blocks": ("blocks",),
}


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks. Allowed at any position.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        from gage_eval.base.version import __version__

        print(f"gage-eval {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(FIRST_STEPS, end="")


class _Output(io.TextIOWrapper):
    """Standard output that keeps its first error (such as a full disk) and lets the command finish."""

    failure: OSError | None = None

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except BrokenPipeError:
            raise
        except OSError as error:
            self._drop(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            self._drop(error)

    def end(self) -> None:
        """Write buffered output now, because at exit Python could not report an error in one sentence."""
        try:
            self.flush()
        except BrokenPipeError as error:
            # The reader has closed the pipe, as `head` does. That is not an error.
            self._drop(error)
            self.failure = None

    def _drop(self, error: OSError) -> None:
        """Drop what cannot be written, and all further output."""
        self.failure = self.failure or error
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit."""
    output = _safe_output() if argv is None else None
    if argv is None:
        collect_rarely()
        let_idle_threads_sleep()
        interrupts.handle()
    try:
        _main(argv)
    finally:
        interrupts.command_is_over()
        if output is not None:
            output.end()
            if output.failure is not None:
                reason = output.failure.strerror
                _tell(f"standard output cannot be written ({reason}): free some space, or redirect it.")
                ended = sys.exc_info()[1]
                if ended is None or (isinstance(ended, SystemExit) and not ended.code):
                    sys.exit(1)


def _main(argv: list[str] | None) -> None:
    arguments = sys.argv[1:] if argv is None else argv
    try:
        _check_text(arguments)
        _import_commands(arguments)
        app(args=[argument for argument in arguments if argument != "--debug"], prog_name="gage")
    except GageError as error:
        if "--debug" in arguments:
            raise
        from gage_eval.report.console import readable

        if "--json" in arguments:
            import json

            _tell(json.dumps({"error": error.as_record()}))
        else:
            # The message may quote data with control characters.
            _tell(readable(str(error)))
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, SystemExit) as ended:
        if isinstance(ended.__context__, BrokenPipeError):
            # The reader has closed the pipe, as `head` does. That is not an error.
            sys.exit(0)
        # Typer turns Ctrl-C into this exit code.
        if isinstance(ended, SystemExit) and ended.code != INTERRUPTED:
            raise
        _tell("Interrupted. What was computed is kept.")
        sys.exit(128 + (interrupts.received() or signal.SIGINT))


def _check_text(arguments: list[str]) -> None:
    """Refuse arguments that are not UTF-8: neither JSON nor Parquet can hold them."""
    for argument in arguments:
        if not is_unicode(argument):
            raise InputError(f"the argument '{visible(argument)}' is not UTF-8 text; write it as UTF-8.")


def _import_commands(arguments: list[str]) -> None:
    """Import the module of the command that is asked for; all of them for the help, or for an unknown command."""
    command = next((argument for argument in arguments if not argument.startswith("-")), None)
    for module in [name for name, commands in COMMANDS.items() if command in commands] or COMMANDS:
        importlib.import_module(f"gage_eval.cli.{module}")


def _safe_output() -> _Output | None:
    """Make standard output robust against unencodable characters, a closed pipe and a full disk."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - as long as the process
        return None
    if not isinstance(sys.stdout, io.TextIOWrapper):
        return None
    sys.stdout.flush()
    output = _Output(
        sys.stdout.buffer,
        encoding=sys.stdout.encoding,
        errors="replace",
        line_buffering=sys.stdout.line_buffering,
        write_through=sys.stdout.write_through,
    )
    sys.stdout = output
    return output


def _tell(text: str) -> None:
    """Print a message to standard error, if possible."""
    with suppress(OSError):
        print(text, file=sys.stderr)
