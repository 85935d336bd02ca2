"""What a reader process and its owner say to each other: frames of JSON behind their length, eight bytes, big-endian."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import IO, Any, Final

from knowledge.errors import KnowledgeError
from knowledge.model.documents import Document
from knowledge.model.quality import Facts
from knowledge.model.status import Notice
from knowledge.pipeline.readers.port import Finding
from knowledge.pipeline.readers.reading import Began

LENGTH_BYTES: Final = 8

Frame = dict[str, Any]


def packed(frame: Frame) -> bytes:
    """Lone surrogates pass: paths hold them, and texts are cleaned by who receives them."""
    body = json.dumps(frame, ensure_ascii=False, separators=(",", ":"), default=str).encode("utf-8", "surrogatepass")
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def event_frame(event: Began | Finding) -> Frame:
    match event:
        case Document():
            return {"document": [event.text, event.page, event.locator, event.shares]}
        case Notice():
            return {"notice": event.value}
        case Facts():
            return {"facts": asdict(event)}
        case Began():
            return {"began": [event.media_type, event.reader]}


def error_frame(error: KnowledgeError) -> Frame:
    return {"error": error.to_wire()}


def event(frame: Frame) -> Began | Finding | None:
    """The event of a frame; None if it is no event."""
    match frame:
        case {"document": [text, page, locator, shares]}:
            return Document(text, page, locator, shares)
        case {"notice": code}:
            return Notice(code)
        case {"facts": facts}:
            return Facts(**facts)
        case {"began": [media_type, reader]}:
            return Began(media_type, reader)
    return None


def received(stream: IO[bytes]) -> Frame | None:
    """The next frame; None at the end of the stream."""
    head = stream.read(LENGTH_BYTES)
    if len(head) < LENGTH_BYTES:
        return None
    return _unpacked(stream.read(int.from_bytes(head, "big")))


class Unpacker:
    """Puts frames together from the pieces that a pipe gives."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, piece: bytes) -> Iterator[Frame]:
        pending = self._pending
        pending += piece
        while len(pending) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(pending[:LENGTH_BYTES], "big")
            if len(pending) < end:
                return
            body = bytes(memoryview(pending)[LENGTH_BYTES:end])
            del pending[:end]
            yield _unpacked(body)


def _unpacked(body: bytes) -> Frame:
    frame: Frame = json.loads(body.decode("utf-8", "surrogatepass"))
    return frame
