"""Packages of office files: a zip of XML parts that name each other by relationships."""

import posixpath
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from knowledge.errors import CorruptSource, EncryptedSource, ReaderBudgetExceeded

PART_BYTES: Final = 256 << 20  #: inflated; a part of this size is a bomb or belongs into a database

Element = Any  #: lxml has no types of its own


@dataclass(frozen=True, slots=True)
class Relationship:
    id: str
    kind: str  #: last part of its type, such as `officeDocument` or `footnotes`
    target: str  #: name of the part it leads to


class Package:
    """The parts of one file; a name is looked up without regard to case, as the standard wants."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._entries = {info.filename.lower().lstrip("/"): info for info in archive.infolist()}

    def xml(self, name: str) -> Element | None:
        """The root element of a part, or None if there is no such part.

        Raises:
            CorruptSource, EncryptedSource, ReaderBudgetExceeded.
        """
        from lxml import etree

        info = self._entries.get(name.lower())
        if info is None:
            return None
        if info.flag_bits & 1:
            raise EncryptedSource
        try:
            with self._archive.open(info) as part:
                data = part.read(PART_BYTES + 1)
        except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError, ValueError) as error:
            raise CorruptSource(part=name, detail=str(error)) from error
        except Exception as error:  # zlib.error, and what other methods of compression have
            raise CorruptSource(part=name, exception=type(error).__name__, detail=str(error)) from error
        if len(data) > PART_BYTES:
            raise ReaderBudgetExceeded("A part of this file inflates to more than it may.", part=name, max_bytes=PART_BYTES)
        # Entities stay unread: an office file needs none, and they can name other files or grow without end.
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True)
        try:
            return etree.fromstring(data, parser)
        except etree.XMLSyntaxError as error:
            raise CorruptSource(part=name, detail=str(error)) from error

    def relationships(self, name: str = "") -> list[Relationship]:
        """Where a part leads to inside the package; of the package itself without a name."""
        folder, file = posixpath.split(name)
        root = self.xml(posixpath.join(folder, "_rels", f"{file}.rels"))
        if root is None:
            return []
        return [
            Relationship(
                id=element.get("Id", ""),
                kind=element.get("Type", "").rpartition("/")[2],
                target=_resolved(folder, element.get("Target", "")),
            )
            for element in root
            if element.get("TargetMode") != "External"
        ]


@contextmanager
def opened(path: Path) -> Iterator[Package]:
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError) as error:
        raise CorruptSource(detail=str(error)) from error
    with archive:
        yield Package(archive)


def local(element: Element) -> str:
    """The name of an element without its namespace: the strict and the common form differ in nothing else."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def attribute(element: Element, name: str) -> str | None:
    """An attribute by its local name."""
    for key, value in element.items():
        if key.rpartition("}")[2] == name:
            return str(value)
    return None


def _resolved(folder: str, target: str) -> str:
    return posixpath.normpath(posixpath.join("/", folder, unquote(target))).lstrip("/")
