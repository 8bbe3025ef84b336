"""gage probe: does the model answer alone as it does in a crowd, and is an endpoint still the model?"""

from pathlib import Path
from typing import Annotated

import typer

from gage_eval.base.errors import GATE_FAILED, InputError
from gage_eval.cli.main import app
from gage_eval.cli.options import OF_MODELS, AsJson, RunFields, option, takes
from gage_eval.cli.output import print_json, print_table, say


@app.command()
@takes("config", *OF_MODELS, "store", "concurrency", "task_ids", "model_path", "overrides")
def probe(
    fields: RunFields,
    record: Annotated[Path | None, option("FILE", "Write what the endpoint does to this file: a reference.")] = None,
    reference: Annotated[
        Path | None, option("FILE", "Check the endpoint against this reference; if it fails, exit with 3.")
    ] = None,
    prompts: Annotated[
        int | None,
        option(
            "N",
            "Compare log-probabilities on this many prompts; by default as many as the reference has, or 500.",
            min=20,
            max=1000,
        ),
    ] = None,
    context: Annotated[
        int | None,
        option("N", "Tokens of prompt and answer that the endpoint should serve; the reference's by default.", min=256),
    ] = None,
    tolerance: Annotated[
        float | None, option("X", "Nats by which log-probabilities may differ; 0.01 by default.", min=0)
    ] = None,
    json: AsJson = False,
) -> None:
    """Measure whether models repeat answers, or check an endpoint."""
    from gage_eval.engine.endpoint_check import TOLERANCE, check_endpoint, read_reference, write_reference
    from gage_eval.engine.endpoint_record import USUAL_PROMPTS
    from gage_eval.local.launch import known_blocks
    from gage_eval.runs.options import RunOptions
    from gage_eval.runs.planned import planned
    from gage_eval.runs.probes import probe_models

    checks = record is not None or reference is not None
    if not checks and (prompts, context, tolerance) != (None, None, None):
        raise InputError("--prompts, --context and --tolerance belong to --record FILE or --reference FILE: name one.")
    if record is not None and record.exists():
        raise InputError(f"--record: '{record}' is there already; choose another name, or remove it.")
    known, known_id = (None, None) if reference is None else read_reference(reference)
    if known is not None:
        prompts = prompts or len(known.answers)
        if context is None and known.context is not None:
            context = known.context.size
    options = RunOptions.of(fields)
    run = planned(options, blocks=known_blocks())
    probed = probe_models(
        run,
        options.concurrency,
        prompts=(prompts or USUAL_PROMPTS) if checks else None,
        context=context,
    )
    recorded, verdicts = None, []
    if checks:
        (checked,) = probed
        assert checked.endpoint is not None
        verdicts = check_endpoint(checked.endpoint, known, tolerance=TOLERANCE if tolerance is None else tolerance)
        recorded = None if record is None else write_reference(record, checked.endpoint, run.store)
    if json:
        more = {"reference": known_id, "recorded": recorded, "properties": [x._asdict() for x in verdicts]}
        print_json(
            [{"model": x.name, "tasks": list(x.tasks), **x.verdict.model_dump(mode="json"), **more} for x in probed]
        )
    else:
        for each in probed:
            say(each.text)
        if verdicts:
            rows = [(x.property.replace("_", " "), x.verdict.replace("_", " "), x.text) for x in verdicts]
            print_table(("property", "verdict", "what was seen"), rows)
        if recorded is not None:
            print(f"recorded {record} (sha256 {recorded})")
    if any(x.verdict == "failed" for x in verdicts):
        raise typer.Exit(GATE_FAILED)
