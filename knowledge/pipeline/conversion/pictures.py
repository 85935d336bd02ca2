"""Kinds of pictures that may hold text. By what libmagic says of their bytes."""

from typing import Final

PNG: Final = "image/png"
JPEG: Final = "image/jpeg"
TIFF: Final = "image/tiff"
GIF: Final = "image/gif"
WEBP: Final = "image/webp"
BMP: Final = frozenset({"image/bmp", "image/x-ms-bmp"})

IMAGE_TYPES: Final = frozenset({PNG, JPEG, TIFF, GIF, WEBP}) | BMP
IMAGE_SUFFIXES: Final = frozenset({".png", ".jpg", ".jpeg", ".jpe", ".tif", ".tiff", ".gif", ".webp", ".bmp"})
