"""What a reader is. Ours and other people's come through the entry point group `knowledge.readers`."""

from collections.abc import Iterator
from typing import ClassVar, Protocol

from knowledge.model.documents import Document, SourceFile


class Reader(Protocol):
    """Turns the bytes of one kind of file into text.

    A reader knows bytes and text; it has no settings, no row and no logger of its own.
    """

    name: ClassVar[str]

    def score(self, source: SourceFile) -> int | None:
        """How well this reader fits, higher wins; None if it does not read such files at all. Must not open the file."""
        ...

    def read(self, source: SourceFile) -> Iterator[Document]:
        """The documents in reading order; lazily where the format allows it.

        Raises:
            SourceFault: one of its kinds (`corrupt`, `encrypted`, `binary`, `empty` …); any library's own error is mapped.
        """
        ...
