"""Readable names for runs: quiet-otter instead of 7f3a…."""

import re
import secrets

from gage_eval.base.errors import InputError

_ADJECTIVES = (
    "able amber bold brave bright brisk calm clear clever cosy crisp dapper deft eager early easy fair fleet "
    "fond frank fresh gentle glad golden grand hardy honest humble jolly keen kind lively loyal lucid lucky mellow "
    "merry mild neat nimble noble patient placid plain plucky polite proud quick quiet rapid ready rosy sage "
    "serene sharp shiny silent silver simple sleek smooth snug solid spry steady still stout sunny sure swift "
    "tender tidy tranquil true vivid warm wise witty young zesty"
).split()
_ANIMALS = (
    "auk badger bat bear beaver bee bison bittern camel carp cat civet cod colt condor coot crab crane cricket crow "
    "curlew deer dingo dove drake duck eagle eel egret elk emu falcon fawn ferret finch fox frog gecko gibbon gnu "
    "goose grouse gull hare hawk heron hoopoe horse ibex ibis jackal jay kestrel kite kiwi koala lark lemur lion "
    "llama lynx magpie marmot marten mink mole moose moth mule newt ocelot okapi orca oryx osprey otter owl ox panda "
    "panther pika pike plover pony puffin quail rabbit ram raven robin rook salmon seal shrew shrike skink sloth "
    "snail snipe sparrow stork swallow swan swift tapir tern thrush tiger toad trout turtle viper vole walrus "
    "weasel whale wolf wombat wren yak zebra"
).split()
NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"


def new_name() -> str:
    """A random name such as ``quiet-otter``. `RunFolder.create` checks whether it is free."""
    return f"{secrets.choice(_ADJECTIVES)}-{secrets.choice(_ANIMALS)}"


def is_name(text: str) -> bool:
    """Whether a text can name a run or a baseline: plain, and safe as a folder."""
    return re.fullmatch(NAME_PATTERN, text) is not None


def checked(run_id: str) -> str:
    """The run id, if it is a valid folder name.

    Raises:
        InputError: it is not.
    """
    if not is_name(run_id):
        raise InputError(
            f"'{run_id[:100]}' cannot be a run id: use up to 100 letters, digits and . _ -, starting with a letter "
            "or digit."
        )
    return run_id


def slug(name: str) -> str:
    """The name in lower-case letters, digits and dashes, as Prefect's artifact keys require."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "run"
