"""gage probe: does the model answer alone as it does in a crowd?"""

from gage_eval.cli.main import app
from gage_eval.cli.options import OF_MODELS, AsJson, RunFields, takes


@app.command()
@takes("config", *OF_MODELS, "store", "concurrency", "task_ids", "model_path", "overrides")
def probe(fields: RunFields, json: AsJson = False) -> None:
    """Measure whether models repeat their answers in a crowd."""
    from gage_eval.cli.output import print_json
    from gage_eval.local.launch import known_blocks
    from gage_eval.report.console import clean
    from gage_eval.runs.options import RunOptions
    from gage_eval.runs.planned import planned
    from gage_eval.runs.probes import probe_models

    options = RunOptions.of(fields)
    probed = probe_models(planned(options, blocks=known_blocks()), options.concurrency)
    if json:
        print_json([{"model": x.name, "tasks": list(x.tasks), **x.verdict.model_dump(mode="json")} for x in probed])
        return
    for each in probed:
        print(clean(each.text))
