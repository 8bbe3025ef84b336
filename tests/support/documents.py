"""PDF files and recordings that tests make."""

import io
import math
import wave
from array import array


def pdf(*pages: str, size: tuple[int, int] = (300, 200), script: str = "", locked: bool = False) -> bytes:
    """A PDF with a line of text on each page."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    action = f" /OpenAction << /S /JavaScript /JS ({script}) >>" if script else ""
    objects = [
        f"<< /Type /Catalog /Pages 2 0 R{action} >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        drawn = f"BT /F1 18 Tf 20 50 Td ({text}) Tj ET" if text else ""
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {size[0]} {size[1]}] /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>",
            f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        ]
    if locked:
        key = "<" + "41" * 32 + ">"
        objects.append(f"<< /Filter /Standard /V 1 /R 2 /O {key} /U {key} /P -4 >>")
    out, places = b"%PDF-1.7\n", []
    for number, text in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{text}\nendobj\n".encode()
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    encrypt = f" /Encrypt {len(objects)} 0 R /ID [<00> <00>]" if locked else ""
    trailer = f"<< /Size {len(objects) + 1} /Root 1 0 R{encrypt} >>"
    text = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n{trailer}\nstartxref\n{len(out)}\n%%EOF\n"
    return out + text.encode()


def tone(seconds: float, *, rate: int = 44_100, channels: int = 2, hertz: float = 440.0) -> bytes:
    """A WAV file with a tone, the same in all channels."""
    samples = array("h")
    for place in range(round(seconds * rate)):
        samples.extend([round(12_000 * math.sin(2 * math.pi * hertz * place / rate))] * channels)
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())
    return out.getvalue()
