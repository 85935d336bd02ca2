"""Pages as images: of a PDF, drawn; of a picture, taken out. Never more pixels than the budget has.

Runs in a fork (see `apart.py`): the libraries that open these files are the ones that hostile files are made for.
"""

import json
import math
from pathlib import Path
from typing import Any, Final

from knowledge.errors import CorruptSource, KnowledgeError
from knowledge.model.budget import Budget, Meter
from knowledge.model.documents import Document, SourceFile
from knowledge.model.wire import dump_error
from knowledge.pipeline.conversion.pictures import TIFF
from knowledge.pipeline.readers.media_type import PDF

POINTS_PER_INCH: Final = 72.0
DPI: Final = 300  #: what tesseract's models were trained for
MIN_DPI: Final = 70  #: tesseract takes anything below for a mistake
MAX_PIXELS: Final = 25_000_000  #: of one page as it is read; A3 at 300 dpi has 17 million
_SMALL: Final = 1_800  #: longer side of a picture that is probably a screenshot: letters of 10 pixels are read badly
_PILLOW: Final = ("PNG", "JPEG", "TIFF", "GIF", "WEBP", "BMP")


def survey(source: SourceFile, budget: Budget, report: Path) -> None:
    """Write what there is to do: `{"pages": n, "lacking": [numbers], "texts": {number: text}}`, or `{"error": …}`."""
    try:
        found = _pdf(source, budget) if source.media_type == PDF else _picture(source, budget)
    except KnowledgeError as error:
        found = {"error": dump_error(error)}
    report.write_text(json.dumps(found))


def draw(source: SourceFile, number: int, budget: Budget, image: Path) -> None:
    """One page, 1-based, as a grey image without alpha; its resolution is written into it."""
    picture, dpi = _drawn(source.path, number) if source.media_type == PDF else _taken(source.path, number, budget)
    picture.save(image, format="TIFF", dpi=(dpi, dpi), compression="raw")  # else with that of the file it came from


def _pdf(source: SourceFile, budget: Budget) -> dict[str, Any]:
    from knowledge.pipeline.readers.pdf import PdfReader
    from knowledge.pipeline.readers.pdf_pages import LIBRARY, opened, page_count, pages_without_text

    with LIBRARY:
        document = opened(source.path)
        count = page_count(document)  # as its reader counts: what a damaged file claims is not believed
        document.close()
    Meter(budget).page(count)
    lacking = pages_without_text(source.path)
    texts = {found.page: found.text for found in PdfReader().read(source) if isinstance(found, Document)} if count else {}
    return {"pages": count, "lacking": lacking, "texts": {number: text for number, text in texts.items() if text.strip()}}


def _picture(source: SourceFile, budget: Budget) -> dict[str, Any]:
    with _opened(source.path) as image:
        # Several images in one file are pages in a TIFF; elsewhere they are a film of which the first says enough.
        count = int(getattr(image, "n_frames", 1)) if source.media_type == TIFF else 1
        meter = Meter(budget)
        meter.page(count)
        meter.picture(*image.size)
    return {"pages": count, "lacking": list(range(1, count + 1)), "texts": {}}


def _drawn(path: Path, number: int) -> tuple[Any, int]:
    from knowledge.pipeline.readers.pdf_pages import opened

    document = opened(path)
    page = document[number - 1]
    width, height = (max(side, 1.0) for side in page.get_size())
    scale = min(DPI / POINTS_PER_INCH, math.sqrt(MAX_PIXELS / (width * height)))
    picture = page.render(scale=scale, grayscale=True, may_draw_forms=True).to_pil()
    return picture.convert("L"), max(MIN_DPI, round(scale * POINTS_PER_INCH))


def _taken(path: Path, number: int, budget: Budget) -> tuple[Any, int]:
    from PIL import Image, ImageOps

    with _opened(path) as image:
        if number > 1:
            image.seek(number - 1)
        Meter(budget).picture(*image.size)
        across, down = _resolution(image.info.get("dpi"))
        if image.format == "JPEG":
            image.draft("L", _within(image.size))  # decodes at a fraction of the size where that is enough
        picture = _grey(_on_white(ImageOps.exif_transpose(image)))
    if MIN_DPI <= across < down or MIN_DPI <= down < across:  # a fax: its dots are not square
        larger = max(across, down)
        picture = picture.resize((round(picture.width * larger / across), round(picture.height * larger / down)))
        across = larger
    fitting = _within(picture.size)
    if fitting != picture.size:
        return picture.resize(fitting, Image.Resampling.LANCZOS), DPI
    if across < DPI / 2 and max(picture.size) < _SMALL:
        return picture.resize((picture.width * 2, picture.height * 2), Image.Resampling.LANCZOS), DPI
    return picture, across if across >= MIN_DPI else DPI


def _opened(path: Path) -> Any:
    from PIL import Image, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # the budget is asked before a pixel is unpacked
    try:
        return Image.open(path, formats=_PILLOW)
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError) as error:
        raise CorruptSource("This picture cannot be opened.", detail=type(error).__name__) from error


def _on_white(image: Any) -> Any:
    """Letters that stand on nothing would stand on black."""
    from PIL import Image

    if image.mode not in ("LA", "RGBA", "PA") and "transparency" not in image.info:
        return image
    shown = image.convert("RGBA")
    white = Image.new("RGBA", shown.size, "white")
    return Image.alpha_composite(white, shown)


def _grey(image: Any) -> Any:
    """Eight bits a dot; deeper ones are scaled, where a plain conversion would cut them off."""
    if not image.mode.startswith(("I", "F")):
        return image.convert("L")
    deep = image.convert("F")
    low, high = deep.getextrema()
    factor = 255.0 / (high - low) if high > low else 1.0
    return deep.point(lambda value: value * factor - low * factor).convert("L")


def _resolution(given: Any) -> tuple[int, int]:
    """Dots per inch, across and down; 0 if the file does not say it."""
    try:
        return round(float(given[0])), round(float(given[1]))
    except (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError):
        return 0, 0


def _within(size: tuple[int, int]) -> tuple[int, int]:
    """The size, or the largest of the same shape that the budget has room for."""
    width, height = size
    if width * height <= MAX_PIXELS:
        return size
    factor = math.sqrt(MAX_PIXELS / (width * height))
    return max(1, int(width * factor)), max(1, int(height * factor))
