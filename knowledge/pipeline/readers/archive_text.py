"""Zip and tar archives as one text: each file under a heading with its path, read by the reader that knows it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from knowledge.errors import EncryptedSource, SourceFault
from knowledge.model.documents import Document, SourceFile
from knowledge.model.quality import Facts
from knowledge.model.status import Notice
from knowledge.pipeline.readers.archive import ARCHIVES, Member, members
from knowledge.pipeline.readers.inside import ends_outer, placed, read_inside, told
from knowledge.pipeline.readers.media_type import ARCHIVE_SUFFIXES
from knowledge.pipeline.readers.port import Finding
from knowledge.pipeline.tooling import is_tool_file, is_tool_folder


class ArchiveReader:
    """One document or more for each file inside; one that cannot be read is named, and does not cost the others."""

    name: ClassVar[str] = "archive"
    suffixes: ClassVar[frozenset[str]] = ARCHIVE_SUFFIXES

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type in ARCHIVES else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        files = encrypted = with_text = 0
        for member in members(source.path, source.budget, name=source.name):
            if _is_clutter(member.name):
                continue
            files += 1
            try:
                documents, notices = self._read(member, source)
            except SourceFault as error:
                if ends_outer(error):
                    raise
                encrypted += isinstance(error, EncryptedSource)
                documents, notices = [], told(error)
            with_text += bool(documents)
            yield from notices - {Notice.NO_TEXT_EXTRACTED}
            yield from _headed(documents, member.name)
        if files and encrypted == files:
            raise EncryptedSource
        yield Facts(pages=files, pages_with_text=with_text)

    def _read(self, member: Member, source: SourceFile) -> tuple[list[Document], frozenset[Notice]]:
        with member.open() as stream:
            result = read_inside(stream, member.name.rpartition("/")[2], source)
        return [placed(document, member.name) for document in result.documents], result.notices


def _is_clutter(place: str) -> bool:
    *folders, name = place.split("/")
    return any(is_tool_folder(folder) for folder in folders) or is_tool_file(name)


def _headed(documents: list[Document], name: str) -> Iterator[Document]:
    heading = f"# {name}"
    if not documents:
        yield Document(heading, locator=name)
        return
    first, *others = documents
    yield replace(first, text=f"{heading}\n\n{first.text}")
    yield from others
