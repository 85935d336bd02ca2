"""Pictures of text, and PDFs made of them: made here, so that every test knows what stands on its pages."""

import io
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

A5 = (1240, 1754)  #: dots at 210 dpi
DPI = 210


def picture(text: str, *, size: tuple[int, int] = A5, points: int = 44) -> Image.Image:
    """Black letters on white, as a scanner sees a typed page."""
    image = Image.new("L", size, 255)
    font = ImageFont.load_default(size=points)
    ImageDraw.Draw(image).multiline_text((90, 90), text, fill=0, font=font, spacing=24)
    return image


def scan(path: Path, *pages: str) -> Path:
    """A PDF without a text layer."""
    first, *others = [picture(text).convert("RGB") for text in pages]
    first.save(path, resolution=DPI, save_all=True, append_images=others)
    return path


def mixed(path: Path, pages: Sequence[tuple[str, bool]]) -> Path:
    """A PDF whose pages are (text, whether it is a text layer): others are scans."""
    from pypdfium2 import PdfDocument, PdfMatrix, raw

    document = PdfDocument.new()
    for text, is_layer in pages:
        page = document.new_page(420, 595)
        if is_layer:
            font = raw.FPDFText_LoadStandardFont(document, b"Helvetica")
            for number, line in enumerate(text.splitlines()):
                words = raw.FPDFPageObj_CreateTextObj(document, font, 12.0)
                encoded = (line + "\0").encode("utf-16-le")
                buffer = (raw.FPDF_WCHAR * (len(encoded) // 2)).from_buffer_copy(encoded)
                raw.FPDFText_SetText(words, buffer)
                raw.FPDFPageObj_Transform(words, 1, 0, 0, 1, 40, 540 - 18 * number)
                raw.FPDFPage_InsertObject(page, words)
        else:
            from pypdfium2 import PdfImage

            data = io.BytesIO()
            picture(text).convert("RGB").save(data, format="JPEG", quality=90)
            data.seek(0)
            image = PdfImage.new(document)
            image.load_jpeg(data, inline=True)
            image.set_matrix(PdfMatrix().scale(420, 595))
            page.insert_obj(image)
        page.gen_content()
    document.save(path)
    document.close()
    return path
