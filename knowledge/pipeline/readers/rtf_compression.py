"""RTF as mails of Outlook pack it: a sliding window of 4 KiB that begins with words of every RTF file. Source: [MS-OXRTFCP]."""

import struct
from typing import Final

from knowledge.errors import CorruptSource
from knowledge.model.budget import Meter

_PACKED: Final = 0x75465A4C  # LZFu
_PLAIN: Final = 0x414C454D  # MELA
_WINDOW: Final = 4096
_KNOWN: Final = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript \fdecor MS Sans SerifSymbolArial"
    rb"Times New RomanCourier{\colortbl\red0\green0\blue0" + b"\r\n" + rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)


def decompressed(data: bytes, meter: Meter) -> bytes:
    """The RTF text of a compressed one.

    Raises:
        CorruptSource: it is not compressed RTF; one that is cut off gives what there is.
        ReaderBudgetExceeded
    """
    if len(data) < 16:
        raise CorruptSource("This compressed RTF has no head.")
    _, raw_size, kind, _ = struct.unpack_from("<IIII", data)
    if kind == _PLAIN:
        return data[16 : 16 + raw_size]
    if kind != _PACKED:
        raise CorruptSource("This is no compressed RTF.")
    window = bytearray(_KNOWN.ljust(_WINDOW, b"\0"))
    write, at, out = len(_KNOWN), 16, bytearray()
    while at < len(data):
        flags, at = data[at], at + 1
        for bit in range(8):
            if at + (1 if flags >> bit & 1 else 0) >= len(data):
                break
            if flags >> bit & 1:
                token, at = int.from_bytes(data[at : at + 2], "big"), at + 2
                start, length = token >> 4, (token & 0xF) + 2
                if start == write:  # a reference to where the next byte goes marks the end
                    meter.inflate(len(out))
                    return bytes(out)
            else:
                start, length = -1, 1
            for step in range(length):
                byte = data[at] if start < 0 else window[(start + step) % _WINDOW]
                out.append(byte)
                window[write] = byte
                write = (write + 1) % _WINDOW
            at += start < 0
    meter.inflate(len(out))
    return bytes(out)
