"""Word files of before 2007 as Markdown, by way of LibreOffice."""

from collections.abc import Iterator
from typing import ClassVar, Final

from knowledge.errors import EncryptedSource
from knowledge.model.documents import Document, SourceFile
from knowledge.model.quality import Facts
from knowledge.pipeline.readers import docx, libreoffice, ooxml
from knowledge.pipeline.readers.media_type import DOC
from knowledge.pipeline.readers.port import Finding

_ENCRYPTED: Final = 0x0100  #: in the flags at byte 10 of the stream, in all versions since 6


class DocReader:
    """One document."""

    name: ClassVar[str] = "doc"
    suffixes: ClassVar[frozenset[str]] = frozenset({".doc", ".dot"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type == DOC else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        if _is_encrypted(source):
            raise EncryptedSource
        with (
            libreoffice.converted(source, ".docx", old_suffix=".doc", module="writer") as new,
            ooxml.opened(new) as package,
        ):
            yield Facts(converter=libreoffice.NAME)
            yield Document(docx.text(package))


def _is_encrypted(source: SourceFile) -> bool:
    import olefile

    if not olefile.isOleFile(str(source.path)):
        return False
    with olefile.OleFileIO(str(source.path)) as archive:
        if not archive.exists("WordDocument"):
            return False
        head = archive.openstream("WordDocument").read(12)
    return bool(int.from_bytes(head[10:12], "little") & _ENCRYPTED)
