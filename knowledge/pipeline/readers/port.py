"""What a reader is. Ours and other people's come through the entry point group `knowledge.readers`."""

from collections.abc import Iterator
from typing import ClassVar, Protocol

from knowledge.model.documents import Document, SourceFile
from knowledge.model.status import Notice


class Reader(Protocol):
    """Turns the bytes of one kind of file into text.

    A reader knows bytes and text; it has no settings, no row and no logger of its own.
    """

    name: ClassVar[str]
    suffixes: ClassVar[frozenset[str]]  #: lower case with their dot; what a directory import takes by its name

    def score(self, source: SourceFile) -> int | None:
        """How well this reader fits, higher wins; None if it does not read such files at all. Must not open the file."""
        ...

    def read(self, source: SourceFile) -> Iterator[Document | Notice]:
        """The documents in reading order, lazily where the format allows it; notices about the file at any place between.

        Raises:
            SourceFault: one of its kinds (`corrupt`, `encrypted`, `binary`, `empty` …). An error of the library that reads the
                format may pass through: the registry makes it `corrupt`, with its name in the details.
        """
        ...
