"""The files inside a zip or tar archive, one after the other, with nothing written and nothing followed.

Two callers: the archive reader, which joins their texts, and the expansion of an archive into child items.

    meter = Meter(budget)                                # one for the archive and all archives inside it
    for member in members(path, meter):
        if member.fault is None:
            with member.open() as stream:
                data = stream.read()                     # counted on the meter, never more than it allows

Names are made safe: relative, with `/`, without `.` and `..`, drive letters, NULs and control characters, so no member can
name a place outside. `shown` keeps what the archive says. Several members may have one name; folders are not passed. A link, a
device or a member that needs a password is passed with its fault, and `open` refuses it.
"""

import bz2
import gzip
import io
import lzma
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, Protocol, cast

from knowledge.errors import CorruptSource, EncryptedSource, SourceFault, UnsupportedSource
from knowledge.model.budget import Meter
from knowledge.pipeline.readers.archive_names import decoded_names
from knowledge.pipeline.readers.media_type import PACKED_SUFFIXES, TAR, ZIP
from knowledge.pipeline.readers.xz import open_xz, require_modest_lzma
from knowledge.pipeline.readers.zip_directory import require_short

BZIP2: Final = "application/x-bzip2"
GZIP: Final = "application/gzip"
XZ: Final = "application/x-xz"
ARCHIVES: Final = frozenset({BZIP2, GZIP, TAR, XZ, ZIP})  #: media types that `members` takes


class _Stream(Protocol):
    """What all libraries that unpack have in common."""

    def read(self, size: int = ..., /) -> bytes: ...

    def read1(self, size: int = ..., /) -> bytes: ...

    def close(self) -> None: ...


_Opener = Callable[[Path], _Stream]
_PACKED: Final[tuple[tuple[bytes, _Opener], ...]] = (
    (b"\x1f\x8b", gzip.GzipFile),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\0", open_xz),
)
_ZIP_UTF8: Final = 0x800  #: flag: the name is UTF-8
_ZIP_ENCRYPTED: Final = 0x1
_ZIP_UNICODE_NAME: Final = 0x7075  #: extra field: the name in UTF-8 beside the one in some old charset
_DAMAGE: Final = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    ValueError,
    struct.error,
    NotImplementedError,
)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]")
_DRIVE: Final = re.compile(r"^[A-Za-z]:")


_STEP_BYTES: Final = 256 * 1024  #: unpacked at a time, so that a bomb is found before it is in memory


class MemberFault(StrEnum):
    """Why a member cannot be opened."""

    ENCRYPTED = "encrypted"
    LINK = "link"  #: symbolic or hard; where it leads is not looked at
    SPECIAL = "special"  #: a device, a pipe, or a file with holes


@dataclass(frozen=True, slots=True)
class Member:
    """One file of an archive. `open` works until the next member is taken."""

    name: str  #: safe: relative, parts joined by `/`; never empty
    shown: str  #: as the archive has it
    size: int | None  #: bytes, as the archive claims; not to be trusted
    fault: MemberFault | None = None
    opener: Callable[[], BinaryIO] = field(default=io.BytesIO, repr=False, compare=False)

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """A stream of its bytes.

        Raises:
            EncryptedSource, UnsupportedSource: its fault.
            CorruptSource: also while it is read.
            ReaderBudgetExceeded: while it is read.
        """
        if self.fault is MemberFault.ENCRYPTED:
            raise EncryptedSource(entry=self.shown)
        if self.fault is not None:
            raise UnsupportedSource("Links and devices inside archives are not read.", entry=self.shown, kind=str(self.fault))
        with _damage(self.shown):
            stream = self.opener()
        with closing(stream):
            yield stream


def members(path: Path, meter: Meter, *, name: str = "") -> Iterator[Member]:
    """Every file of an archive in the archive's order; what it is (zip, tar, packed tar, one packed file) is seen by its bytes.

    Entries and unpacked bytes count on `meter`, those that are skipped over as well. Memory stays flat.

    Args:
        name: what a person calls the archive; a file packed alone takes its name from it.

    Raises:
        UnsupportedSource: it is no archive of these kinds.
        CorruptSource: it is damaged; the members before the damage have been passed.
        ReaderBudgetExceeded
    """
    with path.open("rb") as file:
        head = file.read(1024)
    if head.startswith(b"PK"):
        yield from _zip_members(path, meter)
    elif _is_tar(head):
        with path.open("rb") as file:
            yield from _tar_members(file, meter, is_packed=False)
    else:
        unpack = next((opener for magic, opener in _PACKED if head.startswith(magic)), None)
        if unpack is None:
            raise UnsupportedSource("This is neither a zip nor a tar archive.")
        yield from _packed_members(path, unpack, meter, name or path.name)


def safe_name(shown: str) -> str:
    """A relative path for a member, whatever its archive calls it. Separators of Windows count as separators."""
    text = _CONTROL.sub("\ufffd", shown).replace("\\", "/")
    parts = [part for part in _DRIVE.sub("", text).split("/") if part not in ("", ".", "..")]
    return "/".join(parts) or "unnamed"


def _zip_members(path: Path, meter: Meter) -> Iterator[Member]:
    with _damage(path.name):
        require_short(path)
        archive = zipfile.ZipFile(path)
    with archive:
        infos = archive.infolist()
        meter.entry(len(infos))
        for info, shown in zip(infos, _zip_names(infos), strict=True):
            if info.is_dir() or shown.endswith("\\"):
                continue
            yield Member(
                name=safe_name(shown),
                shown=shown,
                size=info.file_size,
                fault=_zip_fault(info),
                opener=partial(_zip_stream, archive, path, info, meter, shown),
            )


def _zip_stream(archive: zipfile.ZipFile, path: Path, info: zipfile.ZipInfo, meter: Meter, shown: str) -> BinaryIO:
    require_modest_lzma(path, info)
    return _counted(cast(_Stream, archive.open(info)), meter, shown)


def _zip_names(infos: list[zipfile.ZipInfo]) -> list[str]:
    """Names as their authors wrote them. Old programs write the charset of their system and do not say which."""
    raw = [None if info.flag_bits & _ZIP_UTF8 else info.orig_filename.encode("cp437", "replace") for info in infos]
    decoded = iter(decoded_names([name for name in raw if name is not None]))
    names = [info.orig_filename if name is None else next(decoded) for info, name in zip(infos, raw, strict=True)]
    return [_unicode_name(info.extra) or name for info, name in zip(infos, names, strict=True)]


def _unicode_name(extra: bytes) -> str | None:
    while len(extra) >= 4:
        kind, size = struct.unpack("<HH", extra[:4])
        if kind == _ZIP_UNICODE_NAME and size > 5:
            return extra[9 : 4 + size].decode("utf-8", errors="replace")
        extra = extra[4 + size :]
    return None


def _zip_fault(info: zipfile.ZipInfo) -> MemberFault | None:
    if info.flag_bits & _ZIP_ENCRYPTED:
        return MemberFault.ENCRYPTED
    kind = stat.S_IFMT(info.external_attr >> 16)  # zero where the archive was not made on Unix
    if kind == stat.S_IFLNK:
        return MemberFault.LINK
    return MemberFault.SPECIAL if kind not in (0, stat.S_IFREG) else None


def _packed_members(path: Path, unpack: _Opener, meter: Meter, name: str) -> Iterator[Member]:
    with _damage(name), closing(unpack(path)) as stream:
        is_tar = _is_tar(stream.read(1024))
    if is_tar:
        with closing(_counted(unpack(path), meter, name)) as counted:
            yield from _tar_members(counted, meter, is_packed=True)
        return
    meter.entry()
    stem = Path(name).stem if Path(name).suffix.lower() in PACKED_SUFFIXES else name
    yield Member(name=safe_name(stem), shown=stem, size=None, opener=lambda: _counted(unpack(path), meter, stem))


def _tar_members(file: IO[bytes], meter: Meter, *, is_packed: bool) -> Iterator[Member]:
    """In one pass without seeking. Bytes of a packed tar are counted below it, where skipped ones pass as well."""
    with _damage("tar"), tarfile.open(fileobj=file, mode="r|", encoding="utf-8", errors="surrogateescape") as archive:
        while True:
            info = archive.next()
            if info is None:
                return
            archive.members = []  # type: ignore[attr-defined]  # tarfile keeps every header; nobody goes back here
            meter.entry()
            if info.isdir():
                continue
            shown = decoded_names([info.name.encode("utf-8", "surrogateescape")])[0]
            yield Member(
                name=safe_name(shown),
                shown=shown,
                size=info.size,
                fault=_tar_fault(info),
                opener=partial(_tar_stream, archive, info, None if is_packed else meter, shown),
            )


def _tar_stream(archive: tarfile.TarFile, info: tarfile.TarInfo, meter: Meter | None, shown: str) -> BinaryIO:
    stream = archive.extractfile(info)
    if stream is None:
        raise UnsupportedSource(entry=shown)
    return _counted(cast(_Stream, stream), meter, shown)


def _tar_fault(info: tarfile.TarInfo) -> MemberFault | None:
    if info.issym() or info.islnk():
        return MemberFault.LINK
    return None if info.isreg() and not info.issparse() else MemberFault.SPECIAL


def _is_tar(head: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(head[:512], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def _counted(stream: _Stream, meter: Meter | None, name: str) -> BinaryIO:
    return io.BufferedReader(_Counted(stream, meter, name), _STEP_BYTES)


class _Counted(io.RawIOBase):
    """A stream whose unpacked bytes count on a meter, a step at a time, and whose damage is our error."""

    def __init__(self, stream: _Stream, meter: Meter | None, name: str) -> None:
        super().__init__()
        self._stream, self._meter, self._name = stream, meter, name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        with _damage(self._name):
            data = self._stream.read1(min(len(buffer), _STEP_BYTES))  # what comes before damage is passed on
        if self._meter is not None:
            self._meter.inflate(len(data))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


@contextmanager
def _damage(name: str) -> Iterator[None]:
    """Errors of the libraries as ours."""
    try:
        yield
    except SourceFault:
        raise
    except RuntimeError as error:  # zipfile's answer to an encrypted entry, and to methods of compression it does not know
        if "password" in str(error) or "encrypted" in str(error):
            raise EncryptedSource(entry=name) from error
        raise CorruptSource(entry=name, detail=str(error)) from error
    except _DAMAGE as error:
        raise CorruptSource(entry=name, detail=str(error)) from error
