"""PowerPoint files of before 2007 as Markdown, slide by slide, by way of LibreOffice."""

from collections.abc import Iterator
from typing import ClassVar, Final

from knowledge.errors import EncryptedSource
from knowledge.model.documents import SourceFile
from knowledge.model.quality import Facts
from knowledge.pipeline.readers import libreoffice, ooxml, pptx
from knowledge.pipeline.readers.media_type import PPT
from knowledge.pipeline.readers.port import Finding

_ENCRYPTED: Final = 0xF3D1C4DF  #: the mark at byte 12 of the stream `Current User`


class PptReader:
    """One document for each slide, with its notes; a slide without text is a blank one."""

    name: ClassVar[str] = "ppt"
    suffixes: ClassVar[frozenset[str]] = frozenset({".ppt", ".pps", ".pot"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type == PPT else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        if _is_encrypted(source):
            raise EncryptedSource
        with (
            libreoffice.converted(source, ".pptx", old_suffix=".ppt", module="impress") as new,
            ooxml.opened(new) as package,
        ):
            yield Facts(converter=libreoffice.NAME)
            yield from pptx.slides(package, source)


def _is_encrypted(source: SourceFile) -> bool:
    import olefile

    if not olefile.isOleFile(str(source.path)):
        return False
    with olefile.OleFileIO(str(source.path)) as archive:
        if archive.exists("EncryptedSummary"):
            return True
        head = archive.openstream("Current User").read(16) if archive.exists("Current User") else b""
    return int.from_bytes(head[12:16], "little") == _ENCRYPTED
