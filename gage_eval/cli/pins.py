"""gage pin."""

from typing import Annotated

from gage_eval.base.errors import InputError
from gage_eval.cli.main import app
from gage_eval.cli.options import AsJson, Store, argument, option
from gage_eval.cli.output import print_json


@app.command()
def pin(
    name: Annotated[str, argument("SUITE", "Name of a suite, or the path of a config.")],
    revisions: Annotated[
        list[str] | None,
        option("DATASET=COMMIT", "The commit of a dataset; the newest by default. May be repeated.", "--revision"),
    ] = None,
    store: Store = None,
    json: AsJson = False,
) -> None:
    """Pin data on the Hugging Face hub to a commit."""
    import os

    from gage_eval.authoring.lm_eval import suite_config
    from gage_eval.runs import RunOptions
    from gage_eval.runs.options import SUITE_PREFIX
    from gage_eval.runs.pins import pin as pin_data

    commits = {}
    for text in revisions or ():
        dataset, equals, commit = text.partition("=")
        if not equals:
            raise InputError(f"--revision {text}: write DATASET=COMMIT, as in --revision owner/name=0123….")
        commits[dataset] = commit
    config = suite_config(name, store, None)
    if config is None:
        config = name if name.startswith(SUITE_PREFIX) or os.path.isfile(name) else f"{SUITE_PREFIX}{name}"
    made, kept = pin_data(RunOptions.of({"config": config, "store": store}), commits)
    if json:
        print_json({"pinned": made, "kept": kept})
        return
    for pinned in made:
        print(f"pinned {pinned.hub} at {pinned.commit}")
    for pinned in kept:
        print(
            f"{pinned.hub} is pinned at {pinned.commit} since {pinned.created}; "
            f"to move it: --revision {pinned.hub}=COMMIT"
        )
    if not made and not kept:
        print(f"all data of {name} have a fixed version; nothing to pin.")
