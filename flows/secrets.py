"""Values of ``block:`` references."""

from gage_eval.errors import InputError


def block_secret(name: str) -> str:
    """The value of a Prefect Secret block.

    Raises:
        InputError: the block does not exist.
    """
    from prefect.blocks.system import Secret

    try:
        block = Secret.load(name)
    except ValueError as error:
        raise InputError(f"the Prefect API has no Secret block '{name}'. Create it in the UI under Blocks.") from error
    assert isinstance(block, Secret)
    return str(block.get())
