"""Images reach a model that sees: as many as there are, each in its place."""

import io
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from real_engines import MODEL, PYTHON, ROOT, Session

from gage_eval.engine.runtime import Runtime
from gage_eval.models.backends.base import BackendContext
from gage_eval.models.client.types import Request, Response

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]


def picture(colour: str) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (40, 30), colour).save(file, "PNG")
    return file.getvalue()


PICTURES = {f"media://{colour}": picture(colour) for colour in ("red", "blue")}


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """vlm_transformers on a tiny random model."""
    folder = tmp_path_factory.mktemp("vlm")
    script = Path(__file__).with_name("tiny_vlm.py")
    subprocess.run([str(PYTHON), str(script), str(MODEL), str(folder)], check=True, capture_output=True)
    config = {"model_path": str(folder), "python": str(PYTHON), "dtype": "float32", "device": "cpu"}
    for url, data in PICTURES.items():
        (folder / f"{url[8:]}.png").write_bytes(data)
    with Runtime() as runtime:
        files = {url: folder / f"{url[8:]}.png" for url in PICTURES}
        context = BackendContext(ROOT, media=PICTURES.__getitem__, media_file=files.get)
        yield Session(runtime, runtime.backend("vlm_transformers", config, context))


def ask(session: Session, *content: Any, embed: bool = False) -> Response:
    parts = [
        {"type": "image_url", "image_url": {"url": part}} if part in PICTURES else {"type": "text", "text": part}
        for part in content
    ]
    params = {"temperature": 0, "max_new_tokens": 8}
    messages = [{"role": "user", "content": parts}]
    (response,) = session.ask(Request("chat", messages=messages, params=params, embed=embed))
    return response


def test_images_from_files_and_as_data_are_the_same_to_the_model(seeing: Session) -> None:
    by_path, as_data = (ask(seeing, *PICTURES, "What is it?", embed=embed) for embed in (False, True))
    assert (by_path.answer, by_path.prompt_tokens) == (as_data.answer, as_data.prompt_tokens)
    assert by_path.answer


def test_each_image_takes_its_tokens_of_the_prompt(seeing: Session) -> None:
    none, single, double = (ask(seeing, *images, "What is it?") for images in ((), ("media://red",), tuple(PICTURES)))
    assert [response.errors for response in (none, single, double)] == [[]] * 3
    tokens = [response.prompt_tokens or 0 for response in (none, single, double)]
    # 28 by 28 pixels in patches of 14: four tokens.
    assert (tokens[1] - tokens[0], tokens[2] - tokens[1]) == (4, 4)


def test_an_image_without_a_word_is_a_prompt(seeing: Session) -> None:
    assert ask(seeing, "media://red").status == "truncated"


def test_placeholders_that_are_too_few_or_too_many_fit_in_the_end(seeing: Session) -> None:
    plain = ask(seeing, "media://red", "What is it?")
    for text in ("<image>What is it?", "<image>What is it?<image>"):
        assert ask(seeing, "media://red", text).answer == plain.answer
