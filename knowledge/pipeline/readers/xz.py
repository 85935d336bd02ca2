"""XZ, and LZMA inside zip, without setting aside as much memory as the file asks for.

A file may ask for a dictionary of 4 GiB, and what is unpacked fills it. The highest level of `xz` needs 64 MiB.
"""

import io
import lzma
import zipfile
from pathlib import Path
from typing import Any, Final

from knowledge.model.budget import exceeded

MEMORY_BYTES: Final = 256 << 20  #: of the unpacker; four times what `xz -9` needs
_STEP: Final = 64 * 1024
_ZIP_LOCAL_HEADER: Final = 30  #: bytes, before name and extra field


def open_xz(path: Path) -> io.BufferedReader:
    """What is packed in a file of one or more XZ streams; see `XzFile`."""
    return io.BufferedReader(XzFile(path))


class XzFile(io.RawIOBase):
    """Reads a file of one or more XZ streams, padding between them included.

    Raises, while it is read:
        ReaderBudgetExceeded: it asks for too much memory. lzma.LZMAError, EOFError: it is damaged.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("rb")
        self._stream = lzma.LZMADecompressor(memlimit=MEMORY_BYTES)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while True:
            if self._stream.eof and not self._next_stream():
                return 0
            packed = b""
            if self._stream.needs_input and not (packed := self._file.read(_STEP)):
                raise EOFError("the file ends before its end was marked")
            data = _unpacked(self._stream, packed, len(buffer))
            if data:
                buffer[: len(data)] = data
                return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()

    def _next_stream(self) -> bool:
        rest = self._stream.unused_data.lstrip(b"\0")
        while not rest:
            step = self._file.read(_STEP)
            if not step:
                return False
            rest = step.lstrip(b"\0")
        self._stream = lzma.LZMADecompressor(memlimit=MEMORY_BYTES)
        self._file.seek(-len(rest), io.SEEK_CUR)
        return True


def require_modest_lzma(path: Path, info: zipfile.ZipInfo) -> None:
    """Refuse a member of a zip archive that asks for too large a dictionary.

    Raises:
        ReaderBudgetExceeded
    """
    if info.compress_type != zipfile.ZIP_LZMA:
        return
    with path.open("rb") as file:
        file.seek(info.header_offset)
        head = file.read(_ZIP_LOCAL_HEADER)
        name, extra = (int.from_bytes(head[at : at + 2], "little") for at in (26, 28))
        file.seek(name + extra, io.SEEK_CUR)
        start = file.read(9)  # version, size of the properties, properties: one byte, then the size of the dictionary
    wanted = int.from_bytes(start[5:9], "little")
    if wanted > MEMORY_BYTES:
        raise exceeded("memory_bytes", wanted, MEMORY_BYTES)


def _unpacked(stream: lzma.LZMADecompressor, packed: bytes, size: int) -> bytes:
    try:
        return stream.decompress(packed, max_length=size)
    except lzma.LZMAError as error:
        if "memory" in str(error).lower():
            raise exceeded("memory_bytes", MEMORY_BYTES + 1, MEMORY_BYTES) from error
        raise
