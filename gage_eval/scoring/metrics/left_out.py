"""Whether an aggregation leaves out answers in which nothing was found. They are wrong and must count.

An aggregation of ``Score.components`` leaves out rows without them. A metric that declares such an aggregation is
called with an empty text for these answers, so that they have components (`gage_eval.scoring.metrics.bind`).
"""

from collections.abc import Iterable, Mapping, Sequence

from gage_eval.base.errors import InputError
from gage_eval.base.field_paths import Path
from gage_eval.scoring.metrics.aggregate import Aggregations
from gage_eval.scoring.metrics.aggregations.base import find_aggregation
from gage_eval.scoring.metrics.base import Definition
from gage_eval.scoring.metrics.pipelines import FilterPipeline
from gage_eval.scoring.metrics.rows import reads_parsed


def is_of_corpus(definition: Definition) -> bool:
    """Whether the metric declares an aggregation of `Score.components`."""
    own = definition.aggregate
    names = [own] if isinstance(own, str) else own.values() if isinstance(own, Mapping) else own
    return any(how.terms or how.pairs for how in map(find_aggregation, names))


def reads_judge(definition: Definition, field_paths: Sequence[Path]) -> bool:
    """Whether the text that the metric reads is a judge's."""
    position = definition.filtered_field
    return position is not None and field_paths[position].input.name == "judgments"


def check_nothing_left_out(
    definition: Definition,
    aggregations: Aggregations,
    filters: Iterable[FilterPipeline],
    field_paths: Sequence[Path],
) -> None:
    """Refuse an aggregation that would leave out the answers in which a filter or a schema finds nothing.

    A judge's text in which nothing is found gives no verdict, and is left out in any case.

    Raises:
        InputError: the metric does not declare that it is made for such an aggregation.
    """
    summed = next((how.name for how in aggregations.every if how.terms or how.pairs), None)
    may_find_nothing = any(pipeline.steps for pipeline in filters) or any(map(reads_parsed, field_paths))
    if summed is None or not may_find_nothing or reads_judge(definition, field_paths):
        return
    if not is_of_corpus(definition):
        raise InputError(
            f"{definition.plugin.name}: aggregation '{summed}' would leave out the answers in which nothing is found: "
            f'declare the metric with aggregate="{summed}", so that they count as wrong, or use another aggregation.'
        )
