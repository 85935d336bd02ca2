"""Files that no reader can read: pictures of text, and what a configured converter does better.

port.py        what a file processor is
registry.py    the processors of this installation, and which of them a file needs
artefact.py    the Markdown that a conversion leaves beside the file, with its page numbers
ocr.py         local OCR: a process of its own for each file
ocr_child.py   that process
pages.py       pages of a PDF, or of a picture, as images within a budget of pixels
tesseract.py   the program that reads them
docling.py     a docling-serve over HTTP
"""
