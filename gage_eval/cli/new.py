"""gage new."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gage_eval.base.errors import InputError
from gage_eval.base.files import write_new
from gage_eval.cli.main import app
from gage_eval.cli.options import option
from gage_eval.cli.output import say

if TYPE_CHECKING:
    from gage_eval.authoring.data_preview import DataPreview, UnknownField

_ENDPOINT = "http://127.0.0.1:8000/v1"


@app.command()
def new(
    data: Annotated[str | None, option("FILE", "Your data, a file or a folder: one row per question.")] = None,
    model: Annotated[
        str | None, option("NAME", "The model: its name at the endpoint, a folder, a .gguf file, or a name on the hub.")
    ] = None,
    endpoint: Annotated[
        str | None, option("URL", "URL of an OpenAI-compatible server, such as http://127.0.0.1:8000/v1.")
    ] = None,
    engine: Annotated[str | None, option("TYPE", "Backend type; the one that fits by default.")] = None,
    api_key_env: Annotated[str | None, option("NAME", "Variable that holds the endpoint's key.")] = None,
    metric: Annotated[
        str | None, option("NAME", "Metric that decides what is right; chosen by the rows by default.")
    ] = None,
    question: Annotated[str | None, option("FIELD", "Field with the question; found by its name by default.")] = None,
    answer: Annotated[str | None, option("FIELD", "Field with the reference; found by its name by default.")] = None,
    out: Annotated[Path | None, option("FILE", "The config to write.")] = None,
) -> None:
    """Write a config for your own data. Asks for what the options leave out; without a terminal it asks nothing."""
    import sys

    from gage_eval.authoring.data_preview import UnknownField, look
    from gage_eval.authoring.new_config import UnknownMetric, new_config, write_schema

    asks = sys.stdin.isatty() and sys.stdout.isatty()
    fields = {"question": question, "answer": answer}
    while True:
        typed = data is None and asks
        if typed:
            data = str(typer.prompt("1. Which file or folder holds your data?", prompt_suffix=" "))
        if data is None:
            raise InputError("name your data with --data FILE; without a terminal nothing is asked.")
        try:
            seen = look(data, **fields)
        except UnknownField as error:
            if not asks:
                raise
            fields[error.option] = _ask_field(error)
        except InputError as error:
            if not typed:
                raise
            say(str(error))
            data = None
        else:
            break
    print(_said(seen))
    if model is None and engine != "dummy":
        if not asks:
            raise InputError("name the model with --model, and its server with --endpoint.")
        model = str(typer.prompt("2. Which model? (its name at a server, a folder, or a name on the hub)"))
        if (
            endpoint is None
            and engine is None
            and not os.path.exists(os.path.expanduser(model))
            and model.count("/") != 1
        ):
            endpoint = str(typer.prompt("   The URL of its server", default=_ENDPOINT))
    can_ask_again = metric is None and asks
    metric = metric or (_ask_metric(seen) if asks else seen.metric)
    while True:
        try:
            file, text, notes = new_config(
                seen, model=model, endpoint=endpoint, engine=engine, api_key_env=api_key_env, metric=metric, out=out
            )
        except UnknownField as error:
            if not asks:
                raise
            fields[error.option] = _ask_field(error)
            try:
                seen = look(data, **fields)
            except UnknownField as wrong:
                say(str(wrong))
        except UnknownMetric as error:
            if not can_ask_again:
                raise
            say(str(error))
            metric = _ask_metric(seen)
        else:
            break
    write_new(file, text)
    write_schema(file.parent)
    print(f"{file} is written and valid.")
    for note in notes:
        print(f"  note: {note}")
    print(f"See the first request: gage preview {file} -n 1    Run it: gage run {file}")


def _said(seen: "DataPreview") -> str:
    from gage_eval.report.console import clean

    choices = ", ".join(seen.choices) if isinstance(seen.choices, list) else repr(seen.choices)
    facts = (
        (seen.question, f"the question is '{seen.question}'"),
        (seen.messages if seen.question is None else None, f"the question is in '{seen.messages}'"),
        (seen.medium, f"the {seen.word}s are in '{seen.medium}'"),
        (seen.contexts, f"the retrieved texts are in '{seen.contexts}'"),
        (seen.choices, f"the options are {choices}"),
        (seen.answer, f"the reference is '{seen.answer}'"),
        (seen.last_turn, "the reference is the last message"),
        (seen.labels, f"the labels are {', '.join(seen.labels or ())}"),
        (seen.types, f"its fields are {', '.join(seen.types or ())}"),
    )
    parts = [text for value, text in facts if value]
    return clean(f"{seen.file}: {', '.join(parts)} ({seen.shown_rows}).")


def _ask_field(error: "UnknownField") -> str:
    say(str(error))
    return str(typer.prompt(f"   The field with the {'question' if error.option == 'question' else 'reference'}"))


def _ask_metric(seen: "DataPreview") -> str:
    from gage_eval.authoring.new_config import RIGHT

    names = list(RIGHT)
    print("3. When is an answer right?")
    for number, (name, words) in enumerate(RIGHT.items(), 1):
        print(f"   {number}  {words} ({name})")
    answer = str(typer.prompt("   Number, or the name of a metric", default=str(names.index(seen.metric) + 1)))
    return names[int(answer) - 1] if answer.isdecimal() and 0 < int(answer) <= len(names) else answer
