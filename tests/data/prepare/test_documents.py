"""PDF files become images of their pages or their text; what is broken, locked or too large is a reject in words."""

import io

import pytest
from PIL import Image

from gage_eval.data.prepare.documents import DocumentRules, page_images, page_text
from gage_eval.data.sample.record import RecordRejected
from tests.support.documents import pdf

IMAGES, TEXT = DocumentRules("images", dpi=72), DocumentRules("text")


def test_each_page_is_an_image_of_its_size_at_the_given_resolution() -> None:
    data = pdf("one", "two", size=(200, 100))
    sizes = [Image.open(io.BytesIO(image)).size for image in page_images(data, DocumentRules("images", dpi=144))]
    assert sizes == [(400, 200), (400, 200)]
    first, second = page_images(data, IMAGES)
    assert first != second
    assert page_images(data, IMAGES) == [first, second]


def test_the_text_of_all_pages_is_in_their_order() -> None:
    assert page_text(pdf("Total: 12.50", "page two"), TEXT) == "Total: 12.50\fpage two"


@pytest.mark.parametrize(
    ("data", "rules", "words"),
    [
        (b"%PDF-1.7\nno more", IMAGES, "broken"),
        (b"%PDF-1.7" + b"\0" * 500, TEXT, "broken"),
        (pdf("a", "b", "c"), DocumentRules("text", max_pages=2), "3 pages"),
        (pdf("a", size=(90_000, 90_000)), IMAGES, "lower pdf_dpi"),
        (pdf(""), TEXT, "no text"),
        (pdf("secret", locked=True), TEXT, "password"),
    ],
)
def test_what_cannot_be_used_is_rejected_in_words(data: bytes, rules: DocumentRules, words: str) -> None:
    with pytest.raises(RecordRejected, match=words):
        page_images(data, rules) if rules.form == "images" else page_text(data, rules)


def test_a_script_in_a_document_does_nothing_and_a_form_feed_in_a_text_is_kept_in_its_page() -> None:
    data = pdf("visible", script="app.alert(1); this.exportDataObject('x');")
    assert page_text(data, TEXT) == "visible"


@pytest.mark.parametrize("cut", range(0, 400, 37))
def test_a_torn_document_is_read_or_rejected_and_nothing_else(cut: int) -> None:
    data = pdf("one", "two")
    for torn in (data[: len(data) - cut], data[:cut] + b"\xff" * 9 + data[cut + 9 :]):
        try:
            assert len(page_images(torn, IMAGES)) >= 1
        except RecordRejected:
            continue
