"""PDF documents for models: pages as images, or their text. pypdfium2 is loaded on first use."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from gage_eval.base.canonical import JsonValue
from gage_eval.data.prepare.images import BOMB_PIXELS, as_png
from gage_eval.data.sample.record import RecordRejected
from gage_eval.extend.extras import missing

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

# PDFium can do one thing at a time in a process.
_lock = threading.Lock()
_POINTS_PER_INCH = 72
_MOST_TEXT = 10_000_000


@dataclass(frozen=True)
class DocumentRules:
    """How a PDF becomes part of a message.

    Attributes:
        form: an image of each page, or the text of all pages.
        dpi: pixels per inch of an image.
        max_pages: a document with more pages rejects its row.
    """

    form: Literal["images", "text"]
    dpi: int = 144
    max_pages: int = 50

    def material(self) -> JsonValue:
        """What determines the pages that are sent."""
        size: JsonValue = self.dpi if self.form == "images" else None
        return {"form": self.form, "dpi": size, "max_pages": self.max_pages}


def pdfium_version() -> str:
    """The version of PDFium, which decides images and text.

    Raises:
        InputError: pypdfium2 is not installed.
    """
    try:
        from pypdfium2.version import PDFIUM_INFO
    except ImportError:
        raise missing("a dataset with `pdf`", "pypdfium2", "media") from None
    return str(PDFIUM_INFO.version)


def is_pdf(data: bytes) -> bool:
    """Whether the bytes are a PDF: its signature is within the first kilobyte, as readers accept it."""
    return b"%PDF-" in data[:1024]


def page_images(data: bytes, rules: DocumentRules) -> list[bytes]:
    """Each page as a PNG.

    Raises:
        RecordRejected: the document is broken, encrypted or has too many or too large pages.
        InputError: pypdfium2 is not installed.
    """
    scale = rules.dpi / _POINTS_PER_INCH
    images = []
    with _opened(data, rules) as document:
        for number in range(len(document)):
            page = document[number]
            width, height = (side * scale for side in page.get_size())
            if not 1 <= width * height <= BOMB_PIXELS:
                raise RecordRejected(
                    f"page {number + 1} would be an image of {width:,.0f} x {height:,.0f} pixels: lower pdf_dpi."
                )
            images.append(as_png(page.render(scale=scale).to_pil()))
            page.close()
    return images


def page_text(data: bytes, rules: DocumentRules) -> str:
    """The text of all pages, which form feeds separate. A page of scanned text has none.

    Raises:
        RecordRejected: the document is broken or encrypted, has too many pages, or no text at all.
        InputError: pypdfium2 is not installed.
    """
    texts = []
    with _opened(data, rules) as document:
        for number in range(len(document)):
            page = document[number]
            text = page.get_textpage().get_text_bounded()
            texts.append("\n".join(text.encode(errors="replace").decode().split("\r\n")).replace("\0", ""))
            page.close()
    whole = "\f".join(texts)
    if not whole.strip():
        raise RecordRejected("the document has no text, as scans have none: send its pages with `pdf: images`.")
    if len(whole) > _MOST_TEXT:
        raise RecordRejected(f"the document has more than {_MOST_TEXT:,} characters.")
    return whole


@contextmanager
def _opened(data: bytes, rules: DocumentRules) -> "Iterator[PdfDocument]":
    pdfium_version()
    import pypdfium2

    with _lock:
        document: Any = None
        try:
            document = pypdfium2.PdfDocument(data)
            pages = len(document)
            if pages > rules.max_pages:
                raise RecordRejected(f"the document has {pages:,} pages; pdf_max_pages is {rules.max_pages:,}.")
            if pages == 0:
                raise RecordRejected("the document has no pages.")
            yield document
        except pypdfium2.PdfiumError as error:
            reason = "it needs a password" if "password" in str(error).lower() else "it cannot be read"
            raise RecordRejected(f"the PDF is broken or locked: {reason}.") from None
        finally:
            if document is not None:
                document.close()
