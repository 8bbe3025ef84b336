"""Values of ``block:`` references."""

from gage_eval.errors import InputError


def block_secret(name: str) -> str:
    """The value of a Prefect Secret block.

    Raises:
        InputError: there is no such block.
    """
    from prefect.blocks.system import Secret

    try:
        block = Secret.load(name)
    except ValueError as error:
        raise InputError(
            f"there is no Secret block '{name}' at this Prefect API. Create it in the UI under Blocks."
        ) from error
    assert isinstance(block, Secret)
    return str(block.get())
