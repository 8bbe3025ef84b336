"""generate: every request is answered once, whatever happens, and the result never depends on how."""

import asyncio
import itertools
import shutil
from pathlib import Path

import pytest
from engine.asking import KEY, MODEL, Prompts, PromptsPart, Scripted, echo, generate, step_of
from hypothesis import given, settings
from hypothesis import strategies as st
from support.logs import read_logs

from gage_eval.base.canonical import digest
from gage_eval.base.errors import ArtifactDamaged, EndpointFailed, InputError
from gage_eval.engine import job
from gage_eval.engine.job import MIN_CHUNK_ASKS, SupersededByOtherRun, chunk_size
from gage_eval.engine.ready import MAX_OPEN_CHUNKS
from gage_eval.engine.rows import index_answers
from gage_eval.engine.wal import LogWriter
from gage_eval.models.client.types import Request, Response
from gage_eval.store import Store
from gage_eval.store.wip import Chunk as FinishedChunk

PROMPTS = [f"prompt {i}" for i in range(40)]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(str(tmp_path / "store"))


def failing(*prompts: str) -> Scripted:
    """Answers all but these prompts, whose rows end in an error."""

    async def answer(request: Request) -> Response:
        assert request.messages
        if request.messages[-1]["content"] in prompts:
            return Response("error", error_kind="http_500", errors=["500"])
        return await echo(request)

    return Scripted(answer)


def ending_at(count: int, width: int = 1) -> Scripted:
    """Answers so many requests, then the endpoint is gone."""

    async def answer(request: Request) -> Response:
        if len(backend.asked) > count:
            raise EndpointFailed("gone.")
        return await echo(request)

    backend = Scripted(answer, width)
    return backend


def asked(backend: Scripted) -> list[str]:
    """The prompts a backend was asked, sorted."""
    return sorted(str(request.messages[-1]["content"]) for request in backend.asked if request.messages)


@given(
    sizes=st.lists(st.integers(0, 70), min_size=1, max_size=4),
    chunks=st.integers(4, 36),
    width=st.integers(1, 40),
    replicates=st.integers(1, 3),
)
@settings(max_examples=25, deadline=None)
def test_neither_chunks_nor_concurrency_change_the_artifact(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], chunks: int, width: int, replicates: int
) -> None:
    parts = [[f"part {part} prompt {row}" for row in range(size)] for part, size in enumerate(sizes)]
    store = Store.open(str(tmp_path_factory.mktemp("store")))
    source = Prompts(*parts, replicates=replicates)
    usual = generate(store, source, Scripted(echo))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "CHUNKS", chunks)
        key = digest([chunks, width])
        limits = {"max_inflight": width, "most_in_chunk": width}
        other = generate(store, source, Scripted(echo, width), key, reuse=False, **limits)
    assert other.responses.id == usual.responses.id
    assert [part.rows for part in other.responses.parts] == [size * replicates for size in sizes]
    assert other.column("row_index") == [row for row in range(sum(sizes)) for _ in range(replicates)]
    assert other.column("replicate") == list(range(replicates)) * sum(sizes)
    tally = other.engine.tally
    assert tally.done == tally.total == tally.sent == sum(sizes) * replicates


@given(part=st.integers(1, 4096), total=st.integers(1, 10**6), most=st.none() | st.integers(1, 5000))
def test_a_chunk_is_within_its_part_and_a_large_step_has_several(part: int, total: int, most: int | None) -> None:
    rows = chunk_size(part, max(part, total), most)
    assert 1 <= rows <= min(part, most or part)
    assert rows <= MIN_CHUNK_ASKS or (rows - 1) * job.CHUNKS < max(part, total)


def test_an_answer_is_in_the_log_before_its_permit_is_freed(store: Store) -> None:
    on_disk: list[int] = []

    async def answer(request: Request) -> Response:
        on_disk.append(len(list(read_logs(store.scratch(KEY)))))
        return await echo(request)

    generate(store, Prompts(PROMPTS), Scripted(answer, width=1))
    assert on_disk == list(range(len(PROMPTS)))


def test_a_failed_endpoint_ends_the_step_and_what_was_answered_is_not_asked_again(store: Store) -> None:
    with pytest.raises(EndpointFailed, match=r"gone\."):
        generate(store, Prompts(PROMPTS), first := ending_at(25, width=4))
    kept = {key for key, _ in read_logs(store.scratch(KEY))}
    assert 22 <= len(kept) <= 25
    done = generate(store, Prompts(PROMPTS), second := Scripted(echo))
    assert len(second.asked) == len(PROMPTS) - len(kept) == done.engine.tally.sent
    assert done.engine.tally.replayed == len(kept)
    assert {*asked(first), *asked(second)} == set(PROMPTS)
    undisturbed = generate(store, Prompts(PROMPTS), Scripted(echo), key=digest("undisturbed"))
    assert done.responses.id == undisturbed.responses.id


def test_a_log_cut_at_any_byte_of_its_last_record_costs_that_record_only(tmp_path: Path) -> None:
    prompts = PROMPTS[:6]
    store = Store.open(str(tmp_path / "store"))
    whole = generate(Store.open(str(tmp_path / "undisturbed")), Prompts(prompts), Scripted(echo)).responses.id
    with pytest.raises(EndpointFailed):
        generate(store, Prompts(prompts), ending_at(4))
    (log,) = store.scratch(KEY).glob("*.log")
    data = log.read_bytes()
    records = list(read_logs(store.scratch(KEY)))
    start = len(data) - len(records[-1][1]) - 40
    cut_store = Store.open(str(tmp_path / "cut"))
    for cut in range(start, len(data) + 1):
        (cut_store.scratch(KEY) / log.name).write_bytes(data[:cut])
        assert list(read_logs(cut_store.scratch(KEY))) == (records if cut == len(data) else records[:-1])
    # A step on what is left: of the record nothing, a part of its header, no payload, a part of it, all of it.
    for cut in (start, start + 20, start + 40, len(data) - 1, len(data)):
        folder = tmp_path / "cut"
        shutil.rmtree(folder)
        cut_store = Store.open(str(folder))
        (cut_store.scratch(KEY) / log.name).write_bytes(data[:cut])
        done = generate(cut_store, Prompts(prompts), backend := Scripted(echo))
        assert len(backend.asked) == (2 if cut == len(data) else 3), f"cut at byte {cut - start} of the record"
        assert done.responses.id == whole


async def test_an_interrupted_step_leaves_what_was_answered_in_the_log(store: Store) -> None:
    async def answer(request: Request) -> Response:
        if len(backend.asked) > 10:
            running.cancel()
            await asyncio.sleep(60)
        return await echo(request)

    backend = Scripted(answer, width=1)
    running = asyncio.create_task(step_of(store, Prompts(PROMPTS), backend).engine.run())
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(list(read_logs(store.scratch(KEY)))) == 10


def test_finished_chunks_are_not_asked_again_though_the_log_is_lost(store: Store) -> None:
    with pytest.raises(EndpointFailed):
        generate(store, Prompts(PROMPTS), ending_at(36))
    chunks = store.wip(KEY).chunks(0)
    assert [(chunk.start, chunk.stop) for chunk in chunks] == [(0, 16), (16, 32)]
    shutil.rmtree(store.scratch(KEY))
    generate(store, Prompts(PROMPTS), backend := Scripted(echo))
    assert asked(backend) == sorted(PROMPTS[32:])


def test_a_part_of_one_chunk_is_written_without_reading_the_chunk(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [PROMPTS[start : start + 10] for start in range(0, 40, 10)]
    usual = generate(Store.open(f"{store.url}-usual"), Prompts(PROMPTS), Scripted(echo))
    monkeypatch.setattr(FinishedChunk, "tables", lambda _: pytest.fail("a chunk was read"))
    once = generate(store, Prompts(*parts), Scripted(echo))
    assert once.column("answer") == usual.column("answer")


def test_chunks_of_another_division_are_taken_over(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    many = Prompts([f"prompt {row}" for row in range(160)])
    with pytest.raises(EndpointFailed):
        generate(store, many, ending_at(150))
    monkeypatch.setattr(job, "CHUNKS", 20)
    done = generate(store, many, backend := Scripted(echo))
    assert asked(backend) == sorted(f"prompt {row}" for row in range(150, 160))
    undisturbed = generate(store, many, Scripted(echo), key=digest("undisturbed"))
    assert done.responses.id == undisturbed.responses.id


def test_a_damaged_chunk_is_refused_by_name(store: Store, tmp_path: Path) -> None:
    with pytest.raises(EndpointFailed):
        generate(store, Prompts(PROMPTS), ending_at(36))
    path = store.wip(KEY).chunks(0)[0].path
    file = tmp_path / "store" / path
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(
        ArtifactDamaged, match=rf"^{path} is not the chunk that was written .*; `gage cache verify --remove`"
    ):
        generate(store, Prompts(PROMPTS), Scripted(echo))


@pytest.mark.parametrize("chunks", [1, 2])
def test_chunks_cleared_away_by_a_faster_process_give_no_short_artifact(store: Store, chunks: int) -> None:
    wip = store.wip(KEY)

    async def answer(request: Request) -> Response:
        if request.row_index == chunks * MIN_CHUNK_ASKS + 1:
            while len(wip.chunks(0)) < chunks:  # noqa: ASYNC110 - committed by another thread
                await asyncio.sleep(0.001)
            wip.discard()
        return await echo(request)

    with pytest.raises(SupersededByOtherRun):
        generate(store, Prompts(PROMPTS), Scripted(answer, width=1))


def test_error_rows_are_in_no_log_chunk_or_index(store: Store) -> None:
    done = generate(store, Prompts(PROMPTS), failing(*PROMPTS[3:5]))
    index_answers(store, MODEL, done.responses)
    assert done.engine.statuses == {"ok": 38, "error": 2}
    keys = done.column("response_key")
    assert len(store.responses.find(MODEL, keys)) == 38
    assert {key for key, _ in read_logs(store.scratch(KEY))} == {*keys} - {*keys[3:5]}
    stored = [chunk.tables()["responses"]["status"].to_pylist() for chunk in store.wip(KEY).chunks(0)]
    assert all(set(statuses) == {"ok"} for statuses in stored)


def test_what_another_run_answered_is_reused_and_a_refresh_asks_all(store: Store) -> None:
    index_answers(store, MODEL, generate(store, Prompts(PROMPTS), Scripted(echo)).responses)
    more = Prompts([*PROMPTS, "a new one"])
    done = generate(store, more, backend := Scripted(echo), key=digest("more rows"))
    assert (asked(backend), done.engine.tally.reused) == (["a new one"], len(PROMPTS))
    done = generate(store, more, backend := Scripted(echo), key=digest("refresh"), reuse=False)
    assert (len(backend.asked), done.engine.tally.reused) == (len(PROMPTS) + 1, 0)


def test_the_newest_of_two_answers_is_reused(store: Store) -> None:
    async def later(request: Request) -> Response:
        return Response("ok", answer="later")

    for key, answer in (("first", echo), ("refreshed", later)):
        done = generate(store, Prompts(PROMPTS), Scripted(answer), key=digest(key), reuse=False)
        index_answers(store, MODEL, done.responses)
    done = generate(store, Prompts(PROMPTS), backend := Scripted(echo), key=digest("again"))
    assert backend.asked == []
    assert set(done.column("answer")) == {"later"}


def test_mending_asks_for_the_error_rows_alone_and_takes_no_older_answer_for_them(store: Store) -> None:
    older = generate(store, Prompts(PROMPTS), Scripted(echo), key=digest("older"))
    index_answers(store, MODEL, older.responses)
    refreshed = generate(store, Prompts(PROMPTS), failing(*PROMPTS[3:5]), key=digest("refreshed"), reuse=False)

    async def later(request: Request) -> Response:
        return Response("ok", answer="retried")

    backend = Scripted(later)
    incomplete = (refreshed.responses, refreshed.telemetry)
    done = generate(store, Prompts(PROMPTS), backend, key=digest("retry"), earlier=incomplete)
    assert asked(backend) == PROMPTS[3:5]
    assert (done.engine.tally.sent, done.engine.tally.replayed) == (2, 38)
    answers = done.column("answer")
    assert answers[3:5] == ["retried", "retried"]
    assert answers[5:] == [f"re: {prompt}" for prompt in PROMPTS[5:]]
    assert done.telemetry.table()["attempts"].to_pylist() == [1] * len(PROMPTS)


def mingled(rows: int) -> list[str]:
    """Every prompt several times, side by side and far apart."""
    return [f"prompt {row // 2 % 50}" for row in range(rows)]


@pytest.mark.parametrize("chunks", [4, 20])
@pytest.mark.parametrize(("kind", "turns"), [("chat", 1), ("turns", 2)])
def test_rows_that_ask_the_same_are_asked_once(
    store: Store, chunks: int, kind: str, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "CHUNKS", chunks)
    prompts = mingled(400)
    source = Prompts(prompts[:300], prompts[300:], kind=kind, turns=turns, replicates=2)
    done = generate(store, source, backend := Scripted(echo))
    assert len(backend.asked) == 2 * turns * len(set(prompts)) == done.engine.tally.sent
    assert done.engine.tally.done == done.engine.tally.total == 800
    asked_last = [f"{prompt}{'?' * (turns - 1)}" for prompt in prompts for _ in range(2)]
    assert done.column("answer") == [f"re: {prompt}" for prompt in asked_last]
    told = done.telemetry.table()["source"].to_pylist()
    assert set(told) == {"sent", "repeated"} if kind == "chat" else set(told) >= {"sent", "repeated"}


def test_a_row_that_asks_what_is_under_way_waits_for_that_answer(store: Store) -> None:
    async def slow(request: Request) -> Response:
        await asyncio.sleep(0.01)
        return await echo(request)

    # A chunk ends in the prompt that the next one begins with: both rows are due at once.
    prompts = [f"prompt {row - (row >= 16)}" for row in range(32)]
    done = generate(store, Prompts(prompts), backend := Scripted(slow, width=32))
    assert asked(backend) == sorted(set(prompts))
    assert done.column("answer") == [f"re: {prompt}" for prompt in prompts]


def test_an_interrupted_step_with_repeated_rows_asks_only_what_is_missing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "CHUNKS", 20)
    prompts = mingled(400)
    with pytest.raises(EndpointFailed):
        generate(store, Prompts(prompts), first := ending_at(30))
    done = generate(store, Prompts(prompts), second := Scripted(echo))
    assert len(first.asked) - 1 + len(second.asked) == len(set(prompts))
    assert done.column("answer") == [f"re: {prompt}" for prompt in prompts]


def test_a_row_repeats_the_error_of_its_chunk_and_both_are_mended_by_one_request(store: Store) -> None:
    prompts = [*PROMPTS[: MIN_CHUNK_ASKS - 1], PROMPTS[3]]
    ill = generate(store, Prompts(prompts), backend := failing(PROMPTS[3]))
    assert len(backend.asked) == len(prompts) - 1
    assert (ill.engine.statuses["error"], ill.engine.tally.errors) == (2, 2)
    incomplete = (ill.responses, ill.telemetry)
    done = generate(store, Prompts(prompts), backend := Scripted(echo), key=digest("retry"), earlier=incomplete)
    assert asked(backend) == [PROMPTS[3]]
    assert done.column("answer") == [f"re: {prompt}" for prompt in prompts]


def test_replicates_of_a_row_are_distinct_requests(store: Store) -> None:
    done = generate(store, Prompts(PROMPTS, replicates=3), backend := Scripted(echo))
    assert len(backend.asked) == 3 * len(PROMPTS) == len(set(done.column("response_key")))
    assert sorted(request.replicate for request in backend.asked) == sorted([0, 1, 2] * len(PROMPTS))


def test_rows_are_rendered_when_they_are_due(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "CHUNKS", 80)
    rendered = 0
    most = 0

    class Counting(PromptsPart):
        def render(self, start: int, stop: int) -> list[Request]:
            nonlocal rendered
            rendered += stop - start
            return super().render(start, stop)

    class CountingPrompts(Prompts):
        def open(self, part: int) -> PromptsPart:
            return Counting(self, part)

    async def answer(request: Request) -> Response:
        nonlocal most
        most = max(most, rendered - len(backend.asked))
        return await echo(request)

    backend = Scripted(answer, width=4)
    source = CountingPrompts(*[[f"{part} {row}" for row in range(100)] for part in range(20)])
    generate(store, source, backend)
    assert rendered == 2000
    assert most <= MAX_OPEN_CHUNKS * chunk_size(100, 2000)


def test_a_row_that_cannot_be_rendered_ends_the_step_with_its_sentence(store: Store) -> None:
    class Refusing(Prompts):
        def open(self, part: int) -> PromptsPart:
            raise InputError("sample 's7' has no messages.")

    with pytest.raises(InputError, match="sample 's7' has no messages"):
        generate(store, Refusing(PROMPTS), backend := Scripted(echo))
    assert backend.asked == []


def test_progress_counts_every_row_once_and_ends_at_the_total(store: Store) -> None:
    heard: list[tuple[int, int, dict[str, float]]] = []
    with pytest.raises(EndpointFailed):
        generate(store, Prompts(PROMPTS), ending_at(30))
    generate(
        store,
        Prompts(PROMPTS),
        failing(PROMPTS[-1]),
        progress=lambda done, total, **figures: heard.append((done, total, figures)),
    )
    done, total, figures = heard[-1]
    assert (done, total, figures["reused"], figures["errors"]) == (40, 40, 30, 1)
    assert all(earlier[0] <= later[0] for earlier, later in itertools.pairwise(heard))


def test_conversations_have_keys_of_their_own_and_one_log_record_a_turn(store: Store) -> None:
    source = Prompts(PROMPTS, kind="turns", turns=2)
    done = generate(store, source, backend := Scripted(echo))
    assert len(backend.asked) == 2 * len(PROMPTS) == len(list(read_logs(store.scratch(KEY))))
    assert len(set(done.column("response_key"))) == len(PROMPTS)
    assert done.column("answer") == [f"re: {prompt}?" for prompt in PROMPTS]
    index_answers(store, MODEL, done.responses)
    again = generate(store, source, backend := Scripted(echo), key=digest("again"))
    assert (backend.asked, again.responses.id) == ([], done.responses.id)


def test_a_foreign_log_record_is_never_taken_for_an_answer(store: Store) -> None:
    with LogWriter(store.scratch(KEY)) as log:
        log.append(digest("of another request"), Response("ok", answer="stale").to_bytes())
    done = generate(store, Prompts(PROMPTS), backend := Scripted(echo))
    assert len(backend.asked) == len(PROMPTS)
    assert "stale" not in done.column("answer")


@pytest.mark.parametrize(("factor", "chunks"), [(1, 3), (3, 5), (None, MAX_OPEN_CHUNKS)])
def test_the_prefetch_factor_bounds_the_requests_that_are_rendered_ahead(
    store: Store, factor: int | None, chunks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One chunk is in flight; another is rendered while at most ``factor`` chunks are ready."""
    monkeypatch.setattr(job, "CHUNKS", 256)
    rendered = 0
    seen: list[int] = []
    go = asyncio.Event()

    class Counted(Prompts):
        def request(self, part: int, ask: int) -> Request:
            nonlocal rendered
            rendered += 1
            return super().request(part, ask)

    async def answer(request: Request) -> Response:
        if len(backend.asked) == 1:
            async with asyncio.timeout(60):
                while rendered < chunks * MIN_CHUNK_ASKS:  # noqa: ASYNC110 - rendering is in another thread
                    await asyncio.sleep(0.01)
            # If it goes on, it does now.
            await asyncio.sleep(0.1)
            seen.append(rendered)
            go.set()
        await go.wait()
        return await echo(request)

    backend = Scripted(answer, MIN_CHUNK_ASKS)
    source = Counted([f"prompt {row}" for row in range(16 * MIN_CHUNK_ASKS)])
    done = generate(store, source, backend, prefetch_factor=factor)
    assert done.engine.tally.done == 16 * MIN_CHUNK_ASKS
    assert seen == [chunks * MIN_CHUNK_ASKS]
