"""gage blocks register."""

from gage_eval.cli.main import command_group
from gage_eval.cli.options import AsJson
from gage_eval.cli.output import print_json

blocks_app = command_group("blocks", "Bring the block types of gage-eval to Prefect.")


@blocks_app.command("register")
def register(json: AsJson = False) -> None:
    """Bring the block types to the Prefect API, for its UI."""
    from gage_eval.local import launch

    names = launch.register_blocks()
    if json:
        print_json({"blocks": names})
    else:
        print(f"Registered: {', '.join(names)}. Create blocks in the UI under Blocks.")
