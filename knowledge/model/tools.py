"""Programs of the system that are used where they are installed, and how to install them."""

from typing import Final

INSTALL_TESSERACT: Final = "sudo apt-get install -y tesseract-ocr tesseract-ocr-eng"
