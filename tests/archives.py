"""Archives for tests, made in memory: plain ones, and those that nobody would make by accident."""

import io
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

Members = Mapping[str, bytes | str] | Iterable[tuple[str, bytes | str]]


def pairs(members: Members) -> list[tuple[str, bytes]]:
    listed = members.items() if isinstance(members, Mapping) else members
    return [(name, content.encode() if isinstance(content, str) else content) for name, content in listed]


def zipped(members: Members) -> bytes:
    """A zip archive; a name may come twice."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in pairs(members):
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o100644 << 16
            known = archive.NameToInfo.pop(name, None)  # else it warns of names that come twice
            archive.writestr(info, content)
            if known is not None:
                archive.NameToInfo[name] = known
    return buffer.getvalue()


def tarred(members: Members, packing: str = "") -> bytes:
    """A tar archive, packed with `gz`, `bz2`, `xz` or not."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{packing}") as archive:
        for name, content in pairs(members):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def with_specials(packing: str = "") -> bytes:
    """A tar archive with a symbolic link, a hard link, a pipe and a device beside one good file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{packing}") as archive:
        for name, kind, target in (
            ("etc.md", tarfile.SYMTYPE, "/etc/passwd"),
            ("hard.md", tarfile.LNKTYPE, "good.md"),
            ("pipe.md", tarfile.FIFOTYPE, ""),
            ("disk.md", tarfile.BLKTYPE, ""),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            archive.addfile(info)
        good = tarfile.TarInfo("good.md")
        good.size = 4
        archive.addfile(good, io.BytesIO(b"good"))
    return buffer.getvalue()


def zip_with_link(name: str, target: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        info = zipfile.ZipInfo(name)
        info.create_system = 3
        info.external_attr = 0o120777 << 16
        archive.writestr(info, target)
        archive.writestr("good.md", "good")
    return buffer.getvalue()


def locked(archive: bytes, *names: str) -> bytes:
    """The same zip archive with these members marked as needing a password."""
    data = bytearray(archive)
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        wanted = [info for info in opened.infolist() if info.filename in names]
    for info in wanted:
        data[info.header_offset + 6] |= 1
    at = 0
    while (at := data.find(b"PK\x01\x02", at)) >= 0:
        size = int.from_bytes(data[at + 28 : at + 30], "little")
        if data[at + 46 : at + 46 + size].decode() in names:
            data[at + 8] |= 1
        at += 46 + size
    return bytes(data)


def renamed(archive: bytes, old: bytes, new: bytes) -> bytes:
    """The same zip archive with a name of the same length in other bytes, and no word about its charset."""
    assert len(old) == len(new)
    return archive.replace(old, new)


def nested(levels: int, innermost: bytes, name: str = "in.zip") -> bytes:
    """Archives inside archives; `levels` of them around the innermost bytes."""
    for _ in range(levels):
        innermost = zipped({name: innermost})
    return innermost


def bomb(mebibytes: int) -> bytes:
    """A zip archive whose only member unpacks to so many MiB of blanks."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("blanks.md", "w") as member:
        for _ in range(mebibytes):
            member.write(b" " * (1 << 20))
    return buffer.getvalue()


def written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path
