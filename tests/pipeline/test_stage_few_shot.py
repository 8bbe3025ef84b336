"""Few-shot examples from a pool: chosen by hash, never the sample itself, the same under any limit and part size."""

import re
import sys
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pipeline.calling import Bench
from support.pictures import write_image

from gage_eval.base.errors import InputError
from gage_eval.base.stages import StageResult
from gage_eval.data.prepare.few_shot import FewShotRules, shuffled
from gage_eval.data.prepare.media import MediaRules
from gage_eval.data.sample.table import messages_from_array
from gage_eval.pipeline import stages
from gage_eval.pipeline.specs import LoadSpec, PreprocessSpec, StandardizeSpec


def question(row: int, **fields: Any) -> dict[str, Any]:
    return {"id": f"s{row}", "question": f"q{row}?", "answer": "even" if row % 2 == 0 else "odd", **fields}


def pool_of(bench: Bench, records: list[dict[str, Any]], name: str = "pool") -> StageResult:
    kept, bench.data = bench.data, bench.folder / f"{name}.jsonl"
    try:
        return bench.samples(records)
    finally:
        bench.data = kept


def prepare(bench: Bench, samples: StageResult, pool: StageResult | None, task: str = "t", **rules: Any) -> StageResult:
    spec = {
        name: rules.pop(name)
        for name in ("kind", "target_delimiter", "media", "pool_media", "choices", "lists_options")
        if name in rules
    }
    few_shot = FewShotRules(pool="pool" if pool else None, **rules)
    return stages.preprocess(
        bench.env, PreprocessSpec(task, {}, few_shot=few_shot, **spec), samples=samples, few_shot=pool
    )


def prompts(bench: Bench, prepared: StageResult) -> dict[str, list[str]]:
    """Messages of each sample, as ``role: text``."""
    table = bench.artifact(prepared, "prepared").table()
    rows = messages_from_array(table["messages"], collapse=True)
    return {
        sample_id: [f"{message['role']}: {message['content']}" for message in row]
        for sample_id, row in zip(table["sample_id"].to_pylist(), rows, strict=True)
    }


def examples(prompt: list[str]) -> list[str]:
    """The examples' questions."""
    return [line.removeprefix("user: ") for line in prompt[:-1] if line.startswith("user: ")]


def test_the_first_examples_stand_before_the_question_as_turns(bench: Bench) -> None:
    pool = pool_of(bench, [question(row) for row in range(10, 20)])
    samples = bench.samples([{**question(1), "question": "mine?"}])
    assert prompts(bench, prepare(bench, samples, pool, k=2)) == {
        "s1": ["user: q10?", "assistant: even", "user: q11?", "assistant: odd", "user: mine?"]
    }


def test_as_text_the_examples_stand_in_the_users_message(bench: Bench) -> None:
    pool = pool_of(bench, [question(10), question(11)])
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "mine?"}]
    samples = bench.samples([{"id": "s", "messages": messages, "references": []}])
    prepared = prepare(bench, samples, pool, k=2, form="text", target_delimiter=" A: ", delimiter="\n--\n")
    assert prompts(bench, prepared)["s"] == [
        "system: be brief",
        "user: q10? A: even\n--\nq11? A: odd\n--\nmine?",
    ]


def test_a_system_message_of_an_example_is_not_shown(bench: Bench) -> None:
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "q?"}]
    pool = pool_of(bench, [{"messages": messages, "label": "a"}])
    samples = bench.samples([{"id": "s", "messages": [messages[0], {"role": "user", "content": "m?"}], "label": "b"}])
    assert prompts(bench, prepare(bench, samples, pool, k=1))["s"] == [
        "system: be brief",
        "user: q?",
        "assistant: a",
        "user: m?",
    ]


def test_a_worked_solution_is_shown_in_place_of_its_final_answer(bench: Bench) -> None:
    pool = pool_of(bench, [{"question": "1+1?", "answer": "2", "metadata": {"answer_text": "1 and 1 are 2. #### 2"}}])
    assert prompts(bench, prepare(bench, bench.samples([question(1)]), pool, k=1))["s1"][1] == (
        "assistant: 1 and 1 are 2. #### 2"
    )


@pytest.mark.parametrize("strategy", ["first", "random", "balanced"])
def test_a_sample_is_never_its_own_example(strategy: str, bench: Bench) -> None:
    records = [question(row) for row in range(12)]
    samples = bench.samples(records)
    by_id = prompts(bench, prepare(bench, samples, samples, k=4, strategy=strategy, own_dataset=True))
    other_ids = pool_of(bench, [{**record, "id": f"other{row}"} for row, record in enumerate(records)])
    by_content = prompts(bench, prepare(bench, samples, other_ids, k=4, strategy=strategy))
    reworded = pool_of(bench, [{**record, "question": record["question"].upper()} for record in records], "reworded")
    by_id_alone = prompts(bench, prepare(bench, samples, reworded, k=4, strategy=strategy, own_dataset=True))
    for by_sample in (by_id, by_content, by_id_alone):
        for prompt in by_sample.values():
            mine = prompt[-1].removeprefix("user: ")
            shown = examples(prompt)
            assert len(shown) == len(set(shown)) == 4
            assert mine not in [text.lower() for text in shown]


def test_equal_ids_of_another_dataset_are_other_samples(bench: Bench) -> None:
    pool = pool_of(bench, [{**question(row), "question": f"dev{row}?"} for row in range(3)])
    by_sample = prompts(bench, prepare(bench, bench.samples([question(1)]), pool, k=3))
    assert examples(by_sample["s1"]) == ["dev0?", "dev1?", "dev2?"]


def test_examples_are_drawn_by_seed_task_and_sample(bench: Bench) -> None:
    pool = pool_of(bench, [question(row) for row in range(100, 160)])
    samples = bench.samples([question(row) for row in range(8)])

    def drawn(**how: Any) -> dict[str, list[str]]:
        return prompts(bench, prepare(bench, samples, pool, k=3, strategy="random", **how))

    by_sample = drawn()
    assert len({tuple(examples(prompt)) for prompt in by_sample.values()}) == 8, "each sample has its own"
    assert drawn(seed=123) == by_sample
    assert drawn(seed=124) != by_sample
    assert drawn(task="u") != by_sample


def test_balanced_examples_take_the_labels_in_turn(bench: Bench) -> None:
    records = [question(row, answer="rare" if row == 107 else "often") for row in range(100, 130)]
    pool = pool_of(bench, records)
    samples = bench.samples([question(row) for row in range(20)])
    by_sample = prompts(bench, prepare(bench, samples, pool, k=2, strategy="balanced"))
    for prompt in by_sample.values():
        answers = Counter(line for line in prompt if line.startswith("assistant"))
        assert answers == {"assistant: rare": 1, "assistant: often": 1}
    assert len({tuple(prompt[:4]) for prompt in by_sample.values()}) > 5, "order and choice differ"
    more = prompts(bench, prepare(bench, samples, pool, k=4, strategy="balanced"))
    assert all(prompt.count("assistant: rare") == 1 and len(examples(prompt)) == 4 for prompt in more.values())


def test_named_examples_stand_in_their_order_and_skip_the_sample_itself(bench: Bench) -> None:
    samples = bench.samples([question(row) for row in range(5)])
    ids = ("s3", "s1", "s4")
    by_sample = prompts(bench, prepare(bench, samples, samples, ids=ids, k=2, own_dataset=True))
    assert {name: examples(prompt) for name, prompt in by_sample.items()} == {
        "s0": ["q3?", "q1?"],
        "s1": ["q3?", "q4?"],
        "s2": ["q3?", "q1?"],
        "s3": ["q1?", "q4?"],
        "s4": ["q3?", "q1?"],
    }


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"k": 4}, "4 examples are asked for, and dataset 'pool' has 3 rows with a question and an answer"),
        ({"ids": ("s1", "s9")}, "sample 's9' of dataset 'pool' is not there."),
        ({"ids": ("nolabel",)}, "sample 'nolabel' of dataset 'pool' has no question or no answer"),
    ],
)
def test_a_pool_that_does_not_suffice_is_refused(rules: dict[str, Any], message: str, bench: Bench) -> None:
    pool = pool_of(bench, [*(question(row) for row in range(3)), {"id": "nolabel", "question": "?", "references": []}])
    with pytest.raises(InputError, match=re.escape(f"task 't'.few_shot{'.ids' if 'ids' in rules else ''}: {message}")):
        prepare(bench, bench.samples([question(7)]), pool, **rules)


def test_too_few_examples_beside_the_sample_itself_are_refused(bench: Bench) -> None:
    samples = bench.samples([question(row) for row in range(3)])
    with pytest.raises(InputError, match="has 2 examples for sample 's0', which cannot be its own example"):
        prepare(bench, samples, samples, k=3, own_dataset=True)


def by_subject(rows: range, **fields: Any) -> list[dict[str, Any]]:
    """Questions of three subjects in turn."""
    return [question(row, data_tag={"subject": "abc"[row % 3]}, **fields) for row in rows]


@pytest.mark.parametrize("strategy", ["first", "random", "balanced"])
def test_matched_examples_are_rows_with_the_samples_own_value(strategy: str, bench: Bench) -> None:
    rules: dict[str, Any] = {"k": 3, "strategy": strategy, "match": "data_tag.subject"}
    samples = bench.samples(by_subject(range(6)))
    by_sample = prompts(bench, prepare(bench, samples, pool_of(bench, by_subject(range(100, 130))), **rules))
    subjects = {name: {int(text[1:-1]) % 3 for text in examples(prompt)} for name, prompt in by_sample.items()}
    assert subjects == {f"s{row}": {row % 3} for row in range(6)}
    # Rows that cannot be its examples change no prompt.
    fewer = [row for row in by_subject(range(100, 130)) if row["data_tag"]["subject"] != "b"]
    kept = prompts(bench, prepare(bench, bench.samples(by_subject(range(1))), pool_of(bench, fewer), **rules))
    assert kept == {"s0": by_sample["s0"]}


def test_a_sample_without_the_value_to_match_by_is_rejected(bench: Bench) -> None:
    pool = pool_of(bench, by_subject(range(100, 130)))
    samples = bench.samples([*by_subject(range(2)), question(7), question(8, data_tag={"topic": "a"})])
    with pytest.raises(InputError, match=r"2 of 4 samples cannot be .* few_shot.match: there is no value at 'data_tag"):
        prepare(bench, samples, pool, k=2, match="data_tag.subject")


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (
            by_subject(range(100, 104)),
            "few_shot: dataset 'pool' has 2 examples with data_tag.subject \"b\" for sample 's1', which cannot be "
            "its own example; 3 are asked for. Lower few_shot.k.",
        ),
        (
            [question(row) for row in range(100, 104)],
            "few_shot.match: no example of dataset 'pool' has a value at 'data_tag.subject'.",
        ),
    ],
)
def test_a_pool_without_enough_rows_that_match_is_refused(
    records: list[dict[str, Any]], message: str, bench: Bench
) -> None:
    with pytest.raises(InputError, match=re.escape(f"task 't'.{message}")):
        prepare(bench, bench.samples(by_subject(range(1, 2))), pool_of(bench, records), k=3, match="data_tag.subject")


@pytest.mark.parametrize("match", ["label", "level", "metadata.level", "references.0.answer"])
def test_any_field_of_samples_can_be_matched_by(match: str, bench: Bench) -> None:
    def rows(start: int) -> list[dict[str, Any]]:
        return [question(row, level=row % 2, metadata={"level": [row % 2]}) for row in range(start, start + 4)]

    by_sample = prompts(bench, prepare(bench, bench.samples(rows(0)), pool_of(bench, rows(100)), k=2, match=match))
    assert {name: examples(prompt) for name, prompt in by_sample.items()} == {
        "s0": ["q100?", "q102?"], "s1": ["q101?", "q103?"], "s2": ["q100?", "q102?"], "s3": ["q101?", "q103?"],
    }  # fmt: skip


def test_k_bounds_the_examples_a_sample_brings_along(bench: Bench) -> None:
    shots = [{"messages": [{"role": "user", "content": f"e{n}?"}], "label": "a"} for n in range(3)]
    samples = bench.samples([question(1, few_shot_examples=shots)])
    assert examples(prompts(bench, prepare(bench, samples, None, k=2))["s1"]) == ["e0?", "e1?"]
    assert examples(prompts(bench, prepare(bench, samples, None, k=0))["s1"]) == []


def test_an_example_a_sample_brings_along_may_have_any_metadata_and_task_type(bench: Bench) -> None:
    shot = {"messages": [{"role": "user", "content": "e?"}], "label": "a", "options": ["a", "b"]}
    shots = [{**shot, "metadata": "a note", "task_type": 5}, {**shot, "metadata": None, "task_type": None}]
    samples = bench.samples([question(1, few_shot_examples=shots)])
    listed = "e?\n\nA. a\nB. b"
    assert examples(prompts(bench, prepare(bench, samples, None, lists_options=True))["s1"]) == [listed, listed]


def test_images_of_examples_come_from_the_folder_of_their_dataset(bench: Bench) -> None:
    mine = write_image(bench.folder / "mine" / "a.png")
    theirs = write_image(bench.folder / "theirs" / "a.png", colour=(0, 0, 0))

    def asks(text: str) -> list[dict[str, Any]]:
        content = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": "a.png"}}]
        return [{"role": "user", "content": content}]

    pool = pool_of(bench, [{"id": "p", "messages": asks("their?"), "label": "a"}])
    samples = bench.samples([{"id": "s", "messages": asks("mine?"), "label": "b"}])
    folders = {"media": MediaRules(bench.folder / "mine"), "pool_media": MediaRules(bench.folder / "theirs")}
    prepared = prepare(bench, samples, pool, k=1, **folders)
    row = messages_from_array(bench.artifact(prepared, "prepared").table()["messages"], collapse=False)[0]
    assert [bench.store.media.get(row[n]["content"][1]["image_url"]["url"]) for n in (0, 2)] == [theirs, mine]
    (bench.folder / "theirs" / "a.png").unlink()
    with pytest.raises(InputError, match="example 'p' of dataset 'pool' cannot be shown: image_url"):
        prepare(bench, samples, pool, k=1, **folders)


def test_completions_are_text_with_their_examples(bench: Bench) -> None:
    pool = pool_of(bench, [question(10)])
    prepared = prepare(bench, bench.samples([question(1)]), pool, k=1, form="text", kind="completion")
    row = bench.rows(prepared, "prepared")[0]
    assert (row["kind"], row["prompt"]) == ("completion", "q10? even\n\nq1?")
    assert (row["chat_template_mode"], row["rendered_by"], row["template_source"]) == ("none", "preprocess", "manual")


def test_likelihood_rows_hold_their_choices_as_they_follow_the_prompt(bench: Bench) -> None:
    record = {"id": "s", "question": "Which?", "choices": ["red", "blue"], "answer": "B", "unconditioned_input": "A:"}
    samples = bench.samples([record])
    by_content = bench.rows(prepare(bench, samples, None, form="text", kind="likelihood"), "prepared")[0]
    assert (by_content["kind"], by_content["choices"]) == ("likelihood", [" red", " blue"])
    assert by_content["unconditioned_input"] == "A:"
    by_id = prepare(bench, samples, None, form="text", kind="likelihood", choices="id", target_delimiter="")
    assert bench.rows(by_id, "prepared")[0]["choices"] == ["A", "B"]
    with pytest.raises(InputError, match="likelihood requests compare options, and there are none"):
        prepare(bench, bench.samples([question(1)]), None, form="text", kind="likelihood")
    listed = bench.samples([{**record, "unconditioned_input": ["A:"]}])
    with pytest.raises(InputError, match="unconditioned_input: likelihood requests are text, and this is a list"):
        prepare(bench, listed, None, form="text", kind="likelihood")


@pytest.mark.parametrize(
    ("last", "choices"),
    [
        ([], ["red", "blue"]),
        ([{"role": "assistant", "content": "Answer:"}], [" red", " blue"]),
        ([{"role": "assistant", "content": "Answer:\n"}], ["red", "blue"]),
    ],
)
def test_in_a_chat_choices_follow_the_template_or_the_words_that_begin_the_answer(
    bench: Bench, last: list[dict[str, str]], choices: list[str]
) -> None:
    record = {"id": "s", "messages": [{"role": "user", "content": "Which?"}, *last]}
    options = [{"id": "A", "content": "red"}, {"id": "B", "content": "blue"}]
    samples = bench.samples([{**record, "options": options, "references": ["B"]}])
    prepared = prepare(bench, samples, None, form="chat", kind="chat_likelihood")
    row = bench.rows(prepared, "prepared")[0]
    assert (row["prompt"], row["choices"]) == (None, choices)
    assert (row["chat_template_mode"], row["rendered_by"], row["template_source"]) == ("backend", "backend", "model")
    assert prompts(bench, prepared)["s"][0] == "user: Which?"


def test_chats_are_rendered_by_the_backend_and_say_so(bench: Bench) -> None:
    row = bench.rows(bench.preprocess(bench.samples([question(1)])), "prepared")[0]
    assert (row["chat_template_mode"], row["rendered_by"], row["template_source"]) == ("backend", "backend", "model")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=8)
@given(
    limit=st.integers(1, 20),
    part_rows=st.integers(5, 25),
    threads=st.integers(1, 8),
    strategy=st.sampled_from(["first", "random", "balanced"]),
    form=st.sampled_from(["chat", "text"]),
    match=st.sampled_from([None, "data_tag.subject"]),
)
def test_limits_part_sizes_and_workers_change_no_prompt(
    bench: Bench, limit: int, part_rows: int, threads: int, strategy: str, form: str, match: str | None
) -> None:
    bench.write(by_subject(range(20)))

    def run(limit: int | None) -> dict[str, list[str]]:
        def rows(limit: int | None) -> StageResult:
            spec = LoadSpec("t", "d", "jsonl", {"path": bench.data.name}, bench.folder, limit=limit)
            raw = stages.load(bench.env, spec)
            return stages.standardize(bench.env, StandardizeSpec("t", "d", "default", {}), raw=raw)

        samples = rows(limit)
        rules: dict[str, Any] = {"strategy": strategy, "form": form, "match": match}
        prepared = prepare(bench, samples, rows(None), k=3, own_dataset=True, **rules)
        parts = [part.index for part in bench.artifact(samples, "samples").parts]
        assert [part.index for part in bench.artifact(prepared, "prepared").parts] == parts, "no boundary moves"
        return prompts(bench, prepared)

    everything = run(None)
    bench.env.refresh = frozenset({("t", stage) for stage in ("load", "standardize", "preprocess")})
    bench.env.media_threads = threads
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["gage_eval.pipeline.load"], "PART_ROWS", part_rows)
        some = run(limit)
    bench.env.refresh = frozenset()
    assert len(some) == limit
    assert some == {name: everything[name] for name in some}


@given(st.lists(st.integers(), max_size=30), st.lists(st.integers(0, 2**64 - 1), min_size=30, max_size=30))
def test_shuffling_gives_every_item_once(items: list[int], draws: list[int]) -> None:
    assert sorted(shuffled(items, iter(draws))) == sorted(items)
