"""Packages of office files: a zip of XML parts that name each other by relationships."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import unquote

from knowledge.model.documents import SourceFile
from knowledge.pipeline.readers.budget import opened_zip, xml_fault

Element = Any  #: lxml has no types of its own

#: Entities stay unread: an office file needs none, and they can name other files or grow without end.
_SAFELY: Final = {
    "resolve_entities": False,
    "no_network": True,
    "load_dtd": False,
    "remove_comments": True,
    "remove_pis": True,
}


@dataclass(frozen=True, slots=True)
class Relationship:
    id: str
    kind: str  #: last part of its type, such as `officeDocument` or `footnotes`
    target: str  #: name of the part it leads to


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class Parts(Protocol):
    """What a package lies in; a `Zip` mostly."""

    @property
    def entries(self) -> Mapping[str, object]: ...

    def read(self, name: str) -> bytes: ...

    def opened(self, name: str) -> AbstractContextManager[Readable]: ...


class Package:
    """The parts of one file; a name is looked up without regard to case, as the standard wants."""

    def __init__(self, archive: Parts) -> None:
        self._archive = archive
        self._names = {name.replace("\\", "/").lstrip("/").lower(): name for name in archive.entries}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._names

    def bytes(self, name: str) -> bytes | None:
        """A part as it is, or None if there is no such part.

        Raises:
            CorruptSource, EncryptedSource, ReaderBudgetExceeded
        """
        entry = self._names.get(name.lower())
        return None if entry is None else self._archive.read(entry)

    def xml(self, name: str) -> Element | None:
        """The root element of a part, or None if there is no such part.

        Raises:
            CorruptSource, EncryptedSource, ReaderBudgetExceeded
        """
        data = self.bytes(name)
        return None if data is None else parsed(data, name)

    def elements(self, name: str, *tags: str) -> Iterator[Element]:
        """Each element of these local names as soon as it is complete, in the order of their ends; see `events`."""
        return (element for _, element in self.events(name, *tags, kinds=("end",)))

    def events(self, name: str, *tags: str, kinds: Sequence[str] = ("start", "end")) -> Iterator[tuple[str, Element]]:
        """(`start` or `end`, element) of these local names, for parts that are too large for a tree.

        An element is emptied after its end, and so is what stands before it; at its start it has its attributes only.

        Raises:
            CorruptSource, EncryptedSource, ReaderBudgetExceeded
        """
        from lxml import etree

        entry = self._names.get(name.lower())
        if entry is None:
            return
        with self._archive.opened(entry) as stream:
            wanted = [f"{{*}}{tag}" for tag in tags]
            try:
                for event, element in etree.iterparse(stream, events=kinds, tag=wanted, **_SAFELY):
                    yield event, element
                    if event == "end":
                        element.clear()
                        while element.getprevious() is not None:
                            del element.getparent()[0]
            except etree.XMLSyntaxError as error:
                raise xml_fault(error, part=name) from error

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
            if local(element) == "Relationship" and element.get("TargetMode") != "External"
        ]

    def main_part(self, usual: str) -> str:
        """The name of the part that the package is about."""
        return next((one.target for one in self.relationships() if one.kind == "officeDocument"), usual)


@contextmanager
def opened(source: SourceFile) -> Iterator[Package]:
    """
    Raises:
        CorruptSource, ReaderBudgetExceeded
    """
    with opened_zip(source) as archive:
        yield Package(archive)


def parsed(data: bytes, name: str) -> Element:
    """The root element of an XML text; nothing outside it is read.

    Raises:
        CorruptSource: it is not well formed.
    """
    from lxml import etree

    try:
        return etree.fromstring(data, etree.XMLParser(**_SAFELY))
    except etree.XMLSyntaxError as error:
        raise xml_fault(error, part=name) from error


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


def child(element: Element, *path: str) -> Element | None:
    """The first child of a local name, its first child of the next name, and so on."""
    for name in path:
        element = next((one for one in element if local(one) == name), None)
        if element is None:
            return None
    return element


def chosen(alternatives: Element) -> Element:
    """One of several forms of the same content: the first is the richest."""
    return next((element for element in alternatives if local(element) == "Choice"), next(iter(alternatives), alternatives))


def _resolved(folder: str, target: str) -> str:
    return posixpath.normpath(posixpath.join("/", folder, unquote(target))).lstrip("/")
