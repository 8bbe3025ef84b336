"""Pictures are compared as scikit-image compares them, and what cannot be compared says why."""

import base64
import io
import shutil
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

import gage_eval
from gage_eval.base.errors import InputError, NotInstalled
from gage_eval.extend import extras
from gage_eval.scoring.metrics import bind
from gage_eval.scoring.metrics.builtin import pictures

ROWS, COLUMNS = np.mgrid[0:40, 0:56]
PLAIN = (3 * COLUMNS + 5 * ROWS) % 256
NOISY = (PLAIN + (COLUMNS * ROWS) % 17) % 256
LIGHT = np.clip(PLAIN + 20, 0, 255)


def url(pixels: Any, **options: Any) -> str:
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels.astype(np.uint8))
    out = io.BytesIO()
    image.save(out, "PNG", **options)
    return f"data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}"


def scored(metric: str, made: str, reference: str, **params: Any) -> Any:
    answer = {"answer": made, "artifacts": {"files": {"image.png": {"url": made, "bytes": 1}}}}
    return gage_eval.score(metric, sample={"label": reference}, model_output=answer, params=params)


# scikit-image 0.26: structural_similarity(a, b, gaussian_weights=True, sigma=1.5, use_sample_covariance=False,
# data_range=255) and peak_signal_noise_ratio(a, b, data_range=255).
@pytest.mark.parametrize(
    ("made", "similarity", "decibels"),
    [(NOISY, 0.7423332122854217, 15.934711616578168), (LIGHT, 0.980204755506139, 22.323594921170745)],
)
@pytest.mark.parametrize("band", [1, 300, 1 << 20])
def test_the_numbers_are_those_of_scikit_image_whatever_is_compared_at_a_time(
    made: Any, similarity: float, decibels: float, band: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pictures, "_BAND", band)
    assert scored("ssim", url(made), url(PLAIN)).values == {"score": pytest.approx(similarity, abs=1e-12)}
    assert scored("psnr", url(made), url(PLAIN)).values == {"score": pytest.approx(decibels, abs=1e-12)}


def test_equal_pictures_have_the_best_score_and_so_have_transparent_and_turned_ones() -> None:
    clear = Image.new("RGBA", (20, 30), (255, 0, 0, 0))
    turned = Image.Exif()
    turned[0x0112] = 6
    upright = Image.fromarray(PLAIN.astype(np.uint8))
    for made, wanted in (
        (url(NOISY), url(NOISY)),
        (url(clear), url(Image.new("RGB", (20, 30), "white"))),
        (url(upright.rotate(90, expand=True), exif=turned), url(PLAIN)),
    ):
        assert scored("ssim", made, wanted).values == {"score": 1}
        assert scored("psnr", made, wanted).values == {"score": 100}


@pytest.mark.parametrize(
    ("made", "reference", "said"),
    [
        (url(PLAIN[:, :50]), url(PLAIN), "the answer has 50 x 40 pixels, and the reference 56 x 40"),
        (url(PLAIN), "data:image/png;base64,AAAA", "the reference cannot be compared: it is not a readable image"),
        (url(PLAIN), "https://example.org/a.png", "download it, and name the file"),
        (url(PLAIN), "/etc/hostname", "a path needs a folder to start from"),
        (f"media://sha256/{'a' * 64}", url(PLAIN), "the answer cannot be compared"),
        ("data:image/png;base64,AAAA", url(PLAIN), "the answer cannot be compared"),
    ],
)
def test_what_cannot_be_compared_has_no_score_and_a_sentence(made: str, reference: str, said: str) -> None:
    for metric in ("psnr", "ssim"):
        result = scored(metric, made, reference)
        assert (result.values, result.status) == ({}, "unscored")
        assert said in str(result.metadata["explanation"])


def test_an_answer_of_several_files_and_a_picture_below_the_window_have_no_score() -> None:
    files = {f"{name}.png": {"url": url(PLAIN)} for name in "ab"}
    several = gage_eval.score("ssim", sample={"label": url(PLAIN)}, model_output={"artifacts": {"files": files}})
    assert several.metadata["explanation"] == "the answer is not one picture"
    small = scored("ssim", url(PLAIN[:10]), url(PLAIN[:10]))
    assert small.metadata["explanation"] == "the pictures have 56 x 10 pixels, less than the window of 11 x 11"


def test_an_address_that_a_model_writes_is_not_read() -> None:
    result = gage_eval.score("psnr", sample={"label": url(PLAIN)}, model_output={"answer": url(PLAIN)})
    assert (result.status, result.metadata["reason"]) == ("unscored", "missing_field")


def test_of_several_references_the_nearest_counts() -> None:
    references = [url(NOISY), url(LIGHT), url(PLAIN)]
    answer = {"artifacts": {"files": {"image.png": {"url": url(LIGHT)}}}}
    assert gage_eval.score("ssim", sample={"references": references}, model_output=answer).values == {"score": 1}


def written(text: str) -> str:
    image = Image.new("RGB", (900, 140), "white")
    ImageDraw.Draw(image).text((30, 30), text, "black", ImageFont.load_default(60))
    return url(image)


@pytest.mark.skipif(shutil.which("tesseract") is None, reason="tesseract is not installed (Debian: tesseract-ocr)")
class TestRenderedText:
    def test_a_text_is_read_and_another_one_is_not_found(self) -> None:
        made = written("Grand opening: MAY 12")
        right = scored("rendered_text", made, "grand opening, may 12")
        assert right.values == {"match": 1, "similarity": 1}
        assert right.metadata["extracted"] == "Grand opening: MAY 12"
        part = scored("rendered_text", made, "Opening may", page_segmentation=7)
        assert part.values["match"] == 1
        assert 0 < part.values["similarity"] < 1
        assert scored("rendered_text", made, "pen").values["match"] == 0, "words, not letters"

    def test_an_empty_picture_is_wrong_and_a_broken_one_has_no_score(self) -> None:
        assert scored("rendered_text", written(""), "May").values == {"match": 0, "similarity": 0}
        assert scored("rendered_text", "data:image/png;base64,AAAA", "May").status == "unscored"
        assert scored("rendered_text", written("May"), "…").metadata["explanation"] == "the reference has no word"

    def test_a_language_that_is_not_installed_is_said_and_one_that_is_a_path_is_refused(self) -> None:
        explanation = scored("rendered_text", written("May"), "May", language="xyz").metadata["explanation"]
        assert "tesseract ended with" in str(explanation)
        with pytest.raises(InputError, match="language"):
            scored("rendered_text", written("May"), "May", language="../../tmp/x")


def test_without_the_program_the_config_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras.shutil, "which", lambda name: None)
    with pytest.raises(NotInstalled, match=r"needs the program tesseract, .*apt-get install tesseract-ocr"):
        bind("rendered_text")
