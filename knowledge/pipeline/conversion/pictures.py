"""Kinds of pictures that may hold text. By what libmagic says of their bytes."""

from typing import Final

from knowledge.pipeline.readers.media_type import PDF

PNG: Final = "image/png"
JPEG: Final = "image/jpeg"
TIFF: Final = "image/tiff"
GIF: Final = "image/gif"
WEBP: Final = "image/webp"
BMP: Final = frozenset({"image/bmp", "image/x-ms-bmp"})

SUFFIXES_OF: Final = {  #: lower case; the usual one first
    PDF: (".pdf",),
    PNG: (".png",),
    JPEG: (".jpg", ".jpeg", ".jpe"),
    TIFF: (".tif", ".tiff"),
    GIF: (".gif",),
    WEBP: (".webp",),
    **dict.fromkeys(BMP, (".bmp",)),
}
IMAGE_TYPES: Final = frozenset({PNG, JPEG, TIFF, GIF, WEBP}) | BMP
IMAGE_SUFFIXES: Final = frozenset(suffix for kind in IMAGE_TYPES for suffix in SUFFIXES_OF[kind])
