"""Pictures that models made: against a reference by their pixels, and by the text that is rendered in them."""

import io
import math
import os
import re
import subprocess
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import numpy as np
from pydantic import StringConstraints

from gage_eval.base.errors import StoreError
from gage_eval.data.prepare.images import decoded, in_mode
from gage_eval.data.sample.record import RecordRejected
from gage_eval.scoring.metrics.base import Score, metric
from gage_eval.scoring.metrics.media_content import address_of, content

if TYPE_CHECKING:
    from PIL.Image import Image

Language: TypeAlias = Annotated[str, StringConstraints(pattern=r"^\w+(\+\w+)*$", max_length=60)]
_Pixels: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]
_Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

_BEST_DB = 100.0
# Wang et al. 2004: the window, and the constants for eight-bit luminance.
_WINDOW, _SIGMA, _C1, _C2 = 11, 1.5, (0.01 * 255) ** 2, (0.03 * 255) ** 2
# Pixels that are compared at a time.
_BAND = 1 << 20
_LONGEST_SIDE = 4096
_OCR_S, _OCR_KB = 120, 2_000_000
# The shell sets the limits: nothing else may run between fork and exec in a process with threads.
_LIMITED = f'ulimit -t {_OCR_S}; ulimit -v {_OCR_KB}; exec tesseract "$@"'
_WORD = re.compile(r"\w+")

_picture_metric = partial(metric, fields={"prediction": "model_output.artifacts.files"}, version=1)


class _NotComparable(Exception):
    """Why two pictures have no score."""


@_picture_metric("psnr", bounds=(0, 100), perfect=_BEST_DB, libraries=("numpy", "pillow"), media=("reference",))
def psnr(prediction: Mapping[str, Any], reference: str) -> Score:
    """Peak signal-to-noise ratio of a picture against a reference picture, in decibels.

    10 · log10(255² / mean squared error) over red, green and blue, as scikit-image's ``peak_signal_noise_ratio``; at
    most 100, which equal pictures have. Both are upright, transparent parts are white, and only first frames count.
    Pictures of different sizes are unscored. Of several references the nearest counts.
    """
    try:
        made, wanted = _pair(prediction, reference, "RGB")
    except _NotComparable as error:
        return Score.unscored(str(error))
    rows = max(1, _BAND // made.shape[1])
    squares = math.fsum(
        float(np.square(made[top : top + rows].astype(np.float64) - wanted[top : top + rows]).sum())
        for top in range(0, len(made), rows)
    )
    return Score(min(_BEST_DB, 10 * math.log10(255**2 * made.size / squares)) if squares else _BEST_DB)


@_picture_metric("ssim", bounds=(-1, 1), perfect=1, libraries=("numpy", "pillow"), media=("reference",))
def ssim(prediction: Mapping[str, Any], reference: str) -> Score:
    """Structural similarity of a picture and a reference picture, in -1..1.

    The mean index of Wang et al. 2004 over all whole windows of the luminance (ITU-R 601): 11 x 11 pixels, Gaussian
    weights of σ 1.5, K1 0.01, K2 0.03, no down-sampling. scikit-image gives the same with ``gaussian_weights=True,
    sigma=1.5, use_sample_covariance=False, data_range=255``. Both are upright, transparent parts are white, and only
    first frames count. Pictures of different sizes, or smaller than the window, are unscored. Of several references the
    nearest counts.
    """
    try:
        made, wanted = _pair(prediction, reference, "L")
    except _NotComparable as error:
        return Score.unscored(str(error))
    if min(made.shape) < _WINDOW:
        return Score.unscored(f"the pictures have {_size(made)} pixels, less than the window of 11 x 11")
    rows = max(1, _BAND // made.shape[1])
    bands = (slice(top, top + rows + _WINDOW - 1) for top in range(0, len(made) - _WINDOW + 1, rows))
    total = math.fsum(_similarity(made[band], wanted[band]) for band in bands)
    # Rounding errors of equal pictures.
    return Score(min(1.0, total / ((made.shape[0] - _WINDOW + 1) * (made.shape[1] - _WINDOW + 1))))


@_picture_metric(
    "rendered_text",
    value=("match", "similarity"),
    binary=("match",),
    bounds=(0, 1),
    libraries=("pillow", "rapidfuzz"),
    programs={"tesseract": "tesseract-ocr"},
)
def rendered_text(
    prediction: Mapping[str, Any],
    reference: str,
    *,
    language: Language = "eng",
    page_segmentation: Literal[3, 4, 6, 7, 8, 11, 13] = 11,
) -> Score:
    """Whether a picture shows a text, as the program Tesseract reads it.

    ``match`` is 1 when the words of the reference are read one after another, and ``similarity`` is 1 - Levenshtein
    distance / length of the longer text. Case and everything but letters, digits and _ are ignored. A language of
    Tesseract is installed with its package (``tesseract-ocr-deu``). ``page_segmentation`` says what Tesseract
    expects: 11 scattered text, 6 one block, 7 one line.
    """
    from rapidfuzz.distance import Levenshtein

    wanted = _words(reference)
    if not wanted:
        return Score.unscored("the reference has no word")
    try:
        with decoded(content(_address(prediction))) as image:
            picture = _flat(image, "RGB")
        text = _read(picture, language, page_segmentation)
    except (RecordRejected, StoreError, _NotComparable) as error:
        return Score.unscored(f"the answer cannot be read: {error}")
    said = _words(text)
    similarity = Levenshtein.normalized_similarity(said, wanted)
    return Score({"match": float(f" {wanted} " in f" {said} "), "similarity": similarity}, extracted=text)


def _pair(prediction: Mapping[str, Any], reference: str, mode: str) -> tuple[_Pixels, _Pixels]:
    """The pixels of the answer and of the reference."""
    made, wanted = _pixels("answer", _address(prediction), mode), _pixels("reference", reference, mode)
    if made.shape != wanted.shape:
        raise _NotComparable(f"the answer has {_size(made)} pixels, and the reference {_size(wanted)}")
    return made, wanted


def _pixels(name: str, address: str, mode: str) -> _Pixels:
    try:
        with decoded(content(address)) as image:
            return np.asarray(_flat(image, mode))
    except (RecordRejected, StoreError) as error:
        raise _NotComparable(f"the {name} cannot be compared: {error}") from None


def _address(files: Mapping[str, Any]) -> str:
    if (address := address_of(files)) is None:
        raise _NotComparable("the answer is not one picture")
    return address


def _size(pixels: _Pixels) -> str:
    return f"{pixels.shape[1]:,} x {pixels.shape[0]:,}"


def _flat(image: "Image", mode: str) -> "Image":
    """The first frame of a picture, upright, on white."""
    from PIL import Image, ImageOps

    ImageOps.exif_transpose(image, in_place=True)
    if image.has_transparency_data:
        clear = in_mode(image, "RGBA")
        image = Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear)
    return in_mode(in_mode(image, "RGB"), mode)


def _similarity(made: _Pixels, wanted: _Pixels) -> float:
    """The sum of the index over all whole windows."""
    x, y = made.astype(np.float64), wanted.astype(np.float64)
    mean_x, mean_y = _weighted(x), _weighted(y)
    product, squares = mean_x * mean_y, mean_x * mean_x + mean_y * mean_y
    covariance = _weighted(x * y) - product
    variances = _weighted(x * x) + _weighted(y * y) - squares
    index = (2 * product + _C1) * (2 * covariance + _C2) / ((squares + _C1) * (variances + _C2))
    return float(index.sum())


def _weighted(values: _Numbers) -> _Numbers:
    """The weighted mean of each whole window."""
    weights = np.exp(-((np.arange(_WINDOW) - _WINDOW // 2) ** 2) / (2 * _SIGMA**2))
    weights /= weights.sum()
    rows, columns = (length - _WINDOW + 1 for length in values.shape)
    down, across = np.zeros((rows, values.shape[1])), np.zeros((rows, columns))
    for place, weight in enumerate(weights):
        down += weight * values[place : place + rows]
    for place, weight in enumerate(weights):
        across += weight * down[:, place : place + columns]
    return across


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


def _read(picture: "Image", language: str, page_segmentation: int) -> str:
    """The text in a picture, by Tesseract, which gets a file that we wrote."""
    picture.thumbnail((_LONGEST_SIDE, _LONGEST_SIDE))
    file = io.BytesIO()
    picture.save(file, "PNG", compress_level=1)
    kept = {name: os.environ[name] for name in ("PATH", "TESSDATA_PREFIX") if name in os.environ}
    arguments = ("stdin", "stdout", "-l", language, "--psm", str(page_segmentation))
    try:
        done = subprocess.run(  # noqa: S603 - a fixed script; the parameters are checked
            ["/bin/sh", "-c", _LIMITED, "tesseract", *arguments],
            input=file.getvalue(),
            capture_output=True,
            check=False,
            # Several threads are slower, and we score in processes.
            env={**kept, "OMP_THREAD_LIMIT": "1", "LC_ALL": "C"},
            timeout=_OCR_S,
        )
    except subprocess.TimeoutExpired:
        raise _NotComparable(f"tesseract took more than {_OCR_S} s") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise _NotComparable(f"tesseract ended with {done.returncode}: {said[-1][:200] if said else 'no message'}")
    return done.stdout.decode(errors="replace").strip()
