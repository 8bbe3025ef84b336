"""Starting a run where it belongs: in this process, or as a flow at the configured Prefect API."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gage_eval.runs import RunOptions, RunOutcome


def launch_run(
    options: "RunOptions", *, inline: bool = False, prefect: bool = False, quiet: bool = False
) -> "RunOutcome":
    """Run the options and print how it goes.

    Args:
        options: what is asked.
        inline: in this process, whatever is configured.
        prefect: insist on a Prefect API.
        quiet: print nothing.

    Raises:
        InputError: the options or the config cannot be used, or the API does not answer.
        GageError: what stopped the run; everything computed is kept.
    """
    from gage_eval.cli.prefect_api import choose_api
    from gage_eval.cli.progress import ConsoleObserver

    api_url = choose_api(inline=inline, prefect=prefect)
    with ConsoleObserver(quiet=quiet, inline=api_url is None) as console:
        if api_url is None:
            from gage_eval.runs import run_inline

            return run_inline(options, [console])
        from flows.launch import launch

        return launch(options, api_url, [console])
