"""What a reader is. Ours and other people's come through the entry point group `knowledge.readers`."""

from collections.abc import Iterator
from typing import ClassVar, Protocol

from knowledge.model.documents import Document, SourceFile
from knowledge.model.quality import Facts
from knowledge.model.status import Notice

Finding = Document | Notice | Facts


class Reader(Protocol):
    """Turns the bytes of one kind of file into text.

    A reader knows bytes and text; it has no settings, no row and no logger of its own. It may run in a process that is killed
    when it takes too long or too much memory (see `process`), so it keeps nothing between two files and starts no thread.
    """

    name: ClassVar[str]
    suffixes: ClassVar[frozenset[str]]  #: lower case with their dot; what a directory import takes by its name

    def score(self, source: SourceFile) -> int | None:
        """How well this reader fits, higher wins; None if it does not read such files at all. Must not open the file."""
        ...

    def read(self, source: SourceFile) -> Iterator[Finding]:
        """The documents in reading order, lazily where the format allows it; notices and facts about the file between them.

        A page without text is yielded as a blank document with its number: so it is counted, and then left out. What a hostile
        file could make large (unpacked bytes, entries, pages, pixels) is counted on `source.budget`; `budget.Zip` does that for
        zip archives. Charset, declared language and the number of slides, sheets or chapters are told as `Facts`.

        Raises:
            SourceFault: one of its kinds (`corrupt`, `encrypted`, `binary`, `empty` …). An error of the library that reads the
                format may pass through: the registry makes it `corrupt`, with its name in the details.
        """
        ...
