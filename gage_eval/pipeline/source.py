"""The requests of a job: from artifacts of earlier stages to rows with their context, to requests."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import starmap

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.data.sample.table import messages_from_array, rows_of
from gage_eval.models.client.types import Request
from gage_eval.pipeline.asks import Asks, PartAsks
from gage_eval.pipeline.generate_spec import Binding
from gage_eval.pipeline.pairs import OtherAnswers
from gage_eval.pipeline.render import PreparedRow, RequestRenderer, RowContext
from gage_eval.store import Artifact, Store

_NOTHING = RowContext()
# Renderers of so many bindings are kept. Where every sample has its own rubric, each is used once.
_RENDERERS = 64
_COLUMNS = [name for name in PreparedRow._fields if name != "messages"]


class RoleSource:
    """The requests of one job, part by part (`gage_eval.engine.job.Source`)."""

    def __init__(self, asks: Asks, inputs: Mapping[str, Artifact]) -> None:
        """Args:
        asks: the asks of the job.
        inputs: artifacts by name: ``prepared``; ``samples`` for prompts and replays that read them, ``responses`` to
            judge, ``support_responses`` for prompts that show them, ``other_responses`` of pairs with another run.
        """
        self._asks = asks
        self._prepared = inputs["prepared"]
        self._samples = inputs.get("samples")
        self._responses = inputs.get("responses")
        self._support = inputs.get("support_responses")
        others = inputs.get("other_responses")
        self._others = None if others is None else OtherAnswers(others)
        self._renderers: dict[str, RequestRenderer] = {}

    @classmethod
    def of(cls, asks: Asks, store: Store, inputs: Mapping[str, str]) -> "RoleSource":
        """The source of a job, from the artifact ids of its stage's inputs."""
        pairs = asks.spec.pairs
        if pairs is not None and pairs.responses is not None:
            inputs = {**inputs, "other_responses": pairs.responses}
        return cls(asks, {name: store.artifact(id_) for name, id_ in inputs.items()})

    @cached_property
    def parts(self) -> Sequence[tuple[int, int]]:
        """(part index, number of asks) in order."""
        return self._asks.counts(self._prepared)

    def open(self, part: int, only: Sequence[int] | None = None) -> "RolePart":
        """The prepared rows of a part that are asked about, with the context that prompts need.

        Args:
            part: index of the part.
            only: the rows that are looked at; others need not be there.
        """
        rows, asks = self._asks.open(part, self._prepared, only)
        indices = rows["row_index"] if only is None else pa.chunked_array([only], pa.int64())
        return RolePart(rows, self._contexts(part, indices, only), asks, self._renderer)

    def _contexts(self, part: int, indices: pa.ChunkedArray, only: Sequence[int] | None) -> dict[int, RowContext]:
        """Contexts of some rows by row index; empty if the prompts need none."""
        if self._samples is None and self._responses is None and self._support is None:
            return {}
        contexts = {index: RowContext() for index in indices.to_pylist()}
        if self._samples is not None:
            samples = _about(self._samples.read(part, rows=only), indices)
            for index, sample in zip(samples["row_index"].to_pylist(), rows_of(samples), strict=True):
                contexts[index].sample = sample
        if self._responses is not None:
            for context in contexts.values():
                context.responses = {}
            for answer in _about(self._responses.read(part, rows=only), indices).to_pylist():
                context = contexts[answer["row_index"]]
                assert context.responses is not None
                context.responses[answer["replicate"]] = answer
        if self._support is not None:
            for answer in _about(self._support.read(part, rows=only), indices).to_pylist():
                contexts[answer["row_index"]].support[answer["replicate"]] = answer
        if self._others is not None:
            others = self._others.of({str(context.sample["id"]) for context in contexts.values()})
            for context in contexts.values():
                context.others = others.get(context.sample["id"], {})
        return contexts

    def _renderer(self, binding: Binding) -> RequestRenderer:
        renderer = self._renderers.get(binding.digest)
        if renderer is None:
            if len(self._renderers) >= _RENDERERS:
                del self._renderers[next(iter(self._renderers))]
            renderer = self._renderers[binding.digest] = RequestRenderer(binding)
        return renderer


@dataclass(eq=False)
class RolePart:
    """The asks of a job in one part.

    Attributes:
        rows: `tables.PREPARED` rows that are asked about.
        contexts: contexts of the rows by row index.
        asks: the asks about them.
        renderer: returns the renderer of a binding.
    """

    rows: pa.Table
    contexts: Mapping[int, RowContext]
    asks: PartAsks
    renderer: Callable[[Binding], RequestRenderer]

    def render(self, start: int, stop: int) -> list[Request]:
        """The requests of the asks ``start`` to ``stop`` (exclusive), one each.

        Raises:
            InputError: a row has no messages and its binding no prompt, or the backend cannot answer this kind of
                request.
        """
        asks = list(self.asks.between(start, stop))
        if not asks:
            return []
        first, last = asks[0][0], asks[-1][0]
        rows = prepared_rows(self.rows.slice(first, last - first + 1))
        requests: list[Request] = []
        for position, binding, repeats in asks:
            row = rows[position - first]
            context = self.contexts.get(row.row_index, _NOTHING)
            requests += self.renderer(binding).render(row, context, repeats)
        return requests

    def of_sample(self, sample_id: str) -> list[Request]:
        """The requests about one sample; empty if nothing is asked about it."""
        position = pc.index(self.rows["sample_id"], sample_id).as_py()
        if position < 0:
            return []
        asks = self.asks.of_row(position)
        return self.render(asks.start, asks.stop)


def _about(table: pa.Table, indices: pa.ChunkedArray) -> pa.Table:
    """The rows of a table with these row indices."""
    return table.filter(pc.is_in(table["row_index"], indices))


def prepared_rows(table: pa.Table) -> list[PreparedRow]:
    """Rows of `tables.PREPARED`."""
    columns = [table[name].to_pylist() for name in _COLUMNS]
    messages = messages_from_array(table["messages"], collapse=True)
    return list(starmap(PreparedRow, zip(*columns, messages, strict=True)))
