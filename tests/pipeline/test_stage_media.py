"""Media on their way from records to prepared rows: kept by hash, rejected with a reason, part of the key."""

import base64
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from pipeline.calling import Bench
from support.pictures import image, size_of, write_image

from gage_eval.base.canonical import decode
from gage_eval.base.errors import InputError, StoreError
from gage_eval.base.stages import StageResult
from gage_eval.data.prepare.images import ImageRules
from gage_eval.data.prepare.media import MediaRules
from gage_eval.data.sample.table import messages_from_array, rows_of
from gage_eval.data.standardize.callables import MediaCallable
from gage_eval.pipeline import stages
from gage_eval.pipeline.specs import LoadSpec, StandardizeSpec

# A callable of a config, and what it is to give.
GIVES: dict[str, Any] = {}


def visual(sample: dict[str, Any], *, suffix: str = ".png", folder: str = "") -> Any:
    media = GIVES["visual"]
    return media(sample, suffix, folder) if callable(media) else media


def asks(*urls: str, **fields: Any) -> dict[str, Any]:
    segments = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    content = [{"type": "text", "text": "What is it?"}, *segments]
    return {"messages": [{"role": "user", "content": content}], "references": ["a"], **fields}


def shown(bench: Bench, prepared: StageResult) -> list[list[str]]:
    """Addresses of the media of each prepared row."""
    rows = messages_from_array(bench.artifact(prepared, "prepared").table()["messages"], collapse=False)
    return [
        [part["image_url"]["url"] for message in row for part in message["content"] if part["type"] == "image_url"]
        for row in rows
    ]


def test_rows_hold_hashes_and_never_data(bench: Bench) -> None:
    data = write_image(bench.folder / "a.png")
    inline = "data:image/png;base64," + base64.b64encode(image(5, 5)).decode()
    samples = bench.samples([asks("a.png"), asks(inline), asks("https://example.invalid/x.png")])
    prepared = bench.preprocess(samples, media=MediaRules(bench.folder))
    (local,), (decoded,), (remote,) = shown(bench, prepared)
    assert bench.store.media.get(local) == data
    assert bench.store.media.get(decoded) == image(5, 5)
    assert remote == "https://example.invalid/x.png"
    for stage, name in ((samples, "samples"), (prepared, "prepared")):
        assert "base64" not in json.dumps(bench.rows(stage, name))
    facts = {"media_type": "image/png", "bytes": len(data), "width": 40, "height": 30}
    meta = decode(bench.rows(prepared, "prepared")[0]["media_meta"])
    assert meta == {"embed": False, "media": [{"url": local, "type": "image_url", **facts}]}


def test_images_in_tables_are_in_the_store_before_any_row_is_written(bench: Bench) -> None:
    png = write_image(bench.folder / "a.png")
    pq.write_table(
        pa.table({"question": ["What?"], "image": [{"bytes": png, "path": "a.png"}], "answers": [["red"]]}),
        bench.folder / "d.parquet",
    )
    (bench.folder / "a.png").unlink()
    raw = stages.load(bench.env, LoadSpec("t", "d", "parquet", {"path": "d.parquet"}, bench.folder))
    url = json.loads(bench.rows(raw, "raw")[0]["record"])["image"]
    assert bench.store.media.get(url) == png
    samples = stages.standardize(bench.env, StandardizeSpec("t", "d", "docvqa", {}), raw=raw)
    row = bench.rows(bench.preprocess(samples), "prepared")[0]
    assert [segment["url"] for segment in row["messages"][0]["content"]] == [url, None]


def test_data_beside_the_messages_is_kept_by_hash_too(bench: Bench) -> None:
    url = f"data:image/png;base64,{base64.b64encode(image()).decode()}"
    records = [
        {"question": "What?", "image": url, "answers": ["red"], "scans": [{"page": [url]}], "note": "data: is plural"},
        {"question": "What?", "image": url, "answers": ["red"], "broken": "data:image/png;base64,#"},
    ]
    bench.write(records)
    result = stages.standardize(bench.env, StandardizeSpec("t", "d", "docvqa", {}), raw=bench.load())
    kept = bench.store.media.put(image())
    first, second = rows_of(bench.artifact(result, "samples").table())
    assert first["metadata"]["image_url"] == kept
    assert first["extra"] == {"note": "data: is plural", "scans": [{"page": [kept]}]}
    assert second["extra"] == {"broken": "data:image/png;base64,#"}


def test_data_that_no_record_shows_are_kept_by_hash_too(bench: Bench) -> None:
    url = f"data:image/png;base64,{base64.b64encode(image()).decode()}"
    GIVES["visual"] = url
    callable_ = MediaCallable(f"{__name__}:visual", "image_url", {}, {})
    hidden = json.dumps(asks(url)).replace("data:", "d\\u0061ta:")
    samples = bench.samples([hidden, {"question": "What?", "answer": "a"}], callables=(callable_,))
    kept = bench.store.media.put(image())
    assert shown(bench, bench.preprocess(samples)) == [[kept], [kept]]
    assert "base64" not in json.dumps(bench.rows(samples, "samples"))


def test_a_record_that_hides_the_name_of_a_missing_medium_is_rejected(bench: Bench) -> None:
    hidden = json.dumps(asks("media://sha256/" + "0" * 64)).replace("media:", "m\\u0065dia:")
    with pytest.raises(InputError, match="is not in this store"):
        bench.samples([hidden])


@pytest.mark.parametrize("stage", ["load", "standardize"])
def test_a_stage_whose_media_cannot_be_stored_commits_nothing(
    stage: str, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(
        pa.table({"question": ["What?"], "image": [image()], "answers": ["red"]}), bench.folder / "d.parquet"
    )
    bench.write([asks(f"data:image/png;base64,{base64.b64encode(image()).decode()}")])
    raw = bench.load()
    create = bench.store.objects.create

    def fail(path: str, data: bytes) -> bool:
        if path.startswith("media/"):
            raise StoreError("no space")
        return create(path, data)

    monkeypatch.setattr(bench.store.objects, "create", fail)
    table = LoadSpec("t", "d", "parquet", {"path": "d.parquet"}, bench.folder)
    with pytest.raises(StoreError, match="no space"):
        _ = stages.load(bench.env, table) if stage == "load" else bench.standardize(raw)
    assert [action.stage for action in bench.store.actions.all()] == ["load"], "that of the records without media"


def test_a_broken_image_rejects_its_row_and_the_others_go_on(bench: Bench) -> None:
    write_image(bench.folder / "a.png")
    (bench.folder / "broken.png").write_bytes(image()[:50])
    samples = bench.samples([asks("a.png"), asks("broken.png", id="bad"), asks("../x.png"), asks("a.png", id="z")])
    prepared = bench.preprocess(samples, media=MediaRules(bench.folder), dataset_id="d", on_reject="skip")
    assert (prepared.counts["prepared"], prepared.counts["prepare_rejects"]) == (2, 2)
    assert [row["row_index"] for row in bench.rows(prepared, "prepared")] == [0, 3]
    rejects = bench.rows(prepared, "prepare_rejects")
    assert [(row["row_index"], row["stage"]) for row in rejects] == [(1, "preprocess"), (2, "preprocess")]
    assert decode(rejects[0]["record"]) == {"id": "bad"}
    assert rejects[0]["reason"].startswith("image_url 'broken.png': the image is broken")
    assert "leads out of content_root" in rejects[1]["reason"]


def test_too_many_rejects_fail_after_all_rows_were_tried(bench: Bench) -> None:
    samples = bench.samples([asks("no.png"), asks(), asks("none.png")])
    with pytest.raises(
        InputError, match=r"^dataset 'd': 2 of 3 samples cannot be prepared \(row 0: image_url 'no.png'"
    ):
        bench.preprocess(samples, media=MediaRules(bench.folder), dataset_id="d")
    with pytest.raises(InputError, match=r"none of its 1 samples can be prepared \(row 0: .*\)\."):
        bench.preprocess(bench.samples([asks("no.png")]), media=MediaRules(bench.folder), on_reject="skip")


def test_a_changed_image_file_changes_the_key_and_a_moved_one_does_not(bench: Bench) -> None:
    write_image(bench.folder / "one" / "a.png")
    write_image(bench.folder / "two" / "a.png")
    samples = bench.samples([asks("a.png")])
    first = bench.preprocess(samples, media=MediaRules(bench.folder / "one"))
    assert bench.preprocess(samples, media=MediaRules(bench.folder / "two")).cached
    write_image(bench.folder / "one" / "a.png", colour=(0, 0, 0))
    changed = bench.preprocess(samples, media=MediaRules(bench.folder / "one"))
    assert not changed.cached
    assert changed.outputs != first.outputs


def test_a_mended_image_is_taken_in_by_the_next_run(bench: Bench) -> None:
    samples = bench.samples([asks("a.png"), asks()])
    rules = MediaRules(bench.folder)
    assert bench.preprocess(samples, media=rules, on_reject="skip").counts["prepared"] == 1
    write_image(bench.folder / "a.png")
    assert bench.preprocess(samples, media=rules, on_reject="skip").counts["prepared"] == 2


def test_text_alone_looks_for_no_file_and_keeps_its_key(bench: Bench) -> None:
    samples = bench.samples([asks()])
    assert "media" not in samples.counts
    first = bench.preprocess(samples, media=MediaRules(bench.folder / "nowhere"))
    assert bench.preprocess(samples, media=MediaRules(bench.folder)).key == first.key


def test_image_rules_are_part_of_the_key_and_of_what_is_stored(bench: Bench) -> None:
    write_image(bench.folder / "a.png", width=400, height=300)
    samples = bench.samples([asks("a.png")])
    first = bench.preprocess(samples, media=MediaRules(bench.folder))
    small = bench.preprocess(
        samples, media=MediaRules(bench.folder, images=ImageRules(max_pixels=100 * 28, min_pixels=1))
    )
    assert small.key != first.key
    assert size_of(bench.store.media.get(shown(bench, small)[0][0])) == (56, 28)


def test_threads_change_no_row(bench: Bench) -> None:
    for index in range(12):
        write_image(bench.folder / f"{index}.png", width=10 + index)
    samples = bench.samples([asks(f"{index}.png", f"{(index + 5) % 12}.png") for index in range(12)])
    outputs = []
    for threads in (1, 7):
        bench.env.media_threads = threads
        bench.env.refresh = frozenset({("t", "preprocess")})
        outputs.append(bench.preprocess(samples, media=MediaRules(bench.folder)).outputs)
    assert outputs[0] == outputs[1]


def test_a_callable_gives_media_to_samples_that_have_none(bench: Bench) -> None:
    data = write_image(bench.folder / "pics" / "s1.png")
    callable_ = MediaCallable(
        f"{__name__}:visual", "image_url", {"suffix": ".png"}, {"folder": "pics/", "suffix": ".gif", "template": "x"}
    )
    GIVES["visual"] = lambda sample, suffix, folder: [f"{folder}{sample['id']}{suffix}", image(6, 6)]
    records = [
        {"id": "s1", "question": "What is it?", "answer": "a"},
        asks("https://example.invalid/x.png", id="s2"),
        {"id": "s3", "question": "What?", "answer": "a", "inputs": {"multi_modal_data": {"image": ["pics/s1.png"]}}},
    ]
    samples = bench.samples(records, callables=(callable_,))
    prepared = bench.preprocess(samples, media=MediaRules(bench.folder))
    first, second, third = shown(bench, prepared)
    assert [bench.store.media.get(url) for url in first] == [data, image(6, 6)]
    assert second == ["https://example.invalid/x.png"]
    assert third == first[:1], "it has an image of its own"


@pytest.mark.parametrize("media", [7, {"url": "a.png"}, [None], "a\nb", ""])
def test_what_a_callable_may_not_give_rejects_the_record(media: object, bench: Bench) -> None:
    GIVES["visual"] = media
    callable_ = MediaCallable(f"{__name__}:visual", "image_url", {}, {})
    with pytest.raises(InputError, match="it must give paths, URLs, bytes or Pillow images"):
        bench.samples([{"question": "What?", "answer": "a"}], callables=(callable_,))


def test_a_callable_may_give_any_image_that_pillow_decodes(bench: Bench) -> None:
    GIVES["visual"] = lambda sample, suffix, folder: [Image.new(mode, (6, 4)) for mode in ("CMYK", "YCbCr", "LA", "1")]
    callable_ = MediaCallable(f"{__name__}:visual", "image_url", {}, {})
    prepared = bench.preprocess(bench.samples([{"question": "What?", "answer": "a"}], callables=(callable_,)))
    (urls,) = shown(bench, prepared)
    assert [size_of(bench.store.media.get(url)) for url in urls] == [(6, 4)] * 4


def test_an_image_of_a_callable_that_is_cut_off_rejects_the_record(bench: Bench) -> None:
    GIVES["visual"] = lambda sample, suffix, folder: Image.open(io.BytesIO(image(64, 64)[:-40]))
    callable_ = MediaCallable(f"{__name__}:visual", "image_url", {}, {})
    with pytest.raises(InputError, match=r"visual gave an image that cannot be used: the image is broken \("):
        bench.samples([{"question": "What?", "answer": "a"}], callables=(callable_,))


def test_a_callable_cannot_change_the_sample(bench: Bench) -> None:
    GIVES["visual"] = lambda sample, suffix, folder: sample["metadata"]["pages"].pop()
    callable_ = MediaCallable(f"{__name__}:visual", "image_url", {}, {})
    record = {"question": "What?", "answer": "a", "metadata": {"pages": ["https://example.invalid/x.png"]}}
    (sample,) = rows_of(bench.artifact(bench.samples([record], callables=(callable_,)), "samples").table())
    assert sample["metadata"] == record["metadata"]


def test_a_callable_that_fails_on_a_sample_rejects_the_record(bench: Bench) -> None:
    GIVES["visual"] = lambda sample, suffix, folder: sample["nothing"]
    callable_ = MediaCallable(f"{__name__}:visual", "image_url", {}, {})
    with pytest.raises(InputError, match="KeyError: 'nothing'"):
        bench.samples([{"question": "What?", "answer": "a"}], callables=(callable_,))


def test_a_callables_arguments_are_part_of_the_key(bench: Bench) -> None:
    GIVES["visual"] = None
    bench.write([{"question": "What?", "answer": "a"}])
    raw = bench.load()
    keys = {
        bench.standardize(raw, callables=callables).key
        for callables in (
            (),
            (MediaCallable(f"{__name__}:visual", "image_url", {}, {}),),
            (MediaCallable(f"{__name__}:visual", "image_url", {"suffix": ".jpg"}, {}),),
            (MediaCallable(f"{__name__}:visual", "image_url", {}, {"folder": "x"}),),
        )
    }
    assert len(keys) == 4
