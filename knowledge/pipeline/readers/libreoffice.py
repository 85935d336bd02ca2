"""Old office files made new ones by LibreOffice, an outside program that this machine may or may not have.

It runs in a process of its own with a fresh profile in a folder that goes with it, so any number may run at once. The profile
takes away what could reach out of the file: macros, and every way to load something from the network. Without that LibreOffice
fetches the pictures that a document links to.
"""

import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from knowledge.errors import CorruptSource, UnsupportedSource
from knowledge.model.documents import SourceFile
from knowledge.pipeline.readers.budget import exceeded

NAME: Final = "LibreOffice"
SECONDS: Final = 90.0  #: for one file; most take one or two

_PROGRAMS: Final = ("soffice", "libreoffice")
_OUTPUT_BYTES: Final = 1 << 30  #: of one file it writes
_ADDRESS_BYTES: Final = 4 << 30  #: it maps half a gigabyte before it has read anything
_DETAIL_CHARACTERS: Final = 300

_SCRIPTING: Final = "/org.openoffice.Office.Common/Security/Scripting"
_PROVIDERS: Final = "/org.openoffice.ucb.Configuration/ContentProviders/Local/SecondaryKeys/Office/ProviderData/"
#: http, https, WebDAV in all its spellings, FTP and CMIS.
_NETWORK: Final = (
    "Provider3",
    "Provider4",
    "Provider4a",
    "Provider12",
    "Provider12a",
    "Provider12b",
    "Provider6",
    "Provider43",
)
_SETTINGS: Final = (
    (_SCRIPTING, "DisableMacrosExecution", "true"),
    (_SCRIPTING, "MacroSecurityLevel", "3"),
    (_SCRIPTING, "DisableActiveContent", "true"),
    ("/org.openoffice.Office.Writer/Content/Update", "Link", "2"),  # never
    *((_PROVIDERS + one, "ServiceName", "") for one in _NETWORK),
)
_ITEM: Final = '<item oor:path="{}"><prop oor:name="{}" oor:op="fuse"><value>{}</value></prop></item>'


@contextmanager
def converted(source: SourceFile, suffix: str, *, old_suffix: str, module: str) -> Iterator[SourceFile]:
    """The same file in the format of `suffix`, as long as the context lasts; on the same budget.

    Args:
        old_suffix: `.doc` or `.ppt`, so that LibreOffice is not misled by the name.
        module: the part of LibreOffice that reads it: `writer` or `impress`.

    Raises:
        UnsupportedSource: LibreOffice is not installed; the message says how to install it.
        CorruptSource: it cannot read the file.
        ReaderBudgetExceeded: it took too long.
    """
    program = next((found for name in _PROGRAMS if (found := shutil.which(name))), None)
    if program is None:
        raise _missing(module)
    with tempfile.TemporaryDirectory(prefix="knowledge-office-") as name:
        folder = Path(name)
        old, new = folder / f"file{old_suffix}", folder / f"file{suffix}"
        shutil.copyfile(source.path, old)  # it leaves lock files beside what it opens
        said = _run(program, folder, old, suffix, min(SECONDS, max(source.budget.seconds_left, 1.0)))
        if not new.is_file():
            if not _has_module(Path(program), module):
                raise _missing(module)
            raise CorruptSource(converter=NAME, detail=said[-_DETAIL_CHARACTERS:])
        yield replace(source, path=new)


def _run(program: str, folder: Path, old: Path, suffix: str, seconds: float) -> str:
    """What LibreOffice says while it converts; its exit code says nothing."""
    profile = folder / "profile"
    (profile / "user").mkdir(parents=True)
    items = "".join(_ITEM.format(*setting) for setting in _SETTINGS)
    (profile / "user" / "registrymodifications.xcu").write_text(
        f'<?xml version="1.0" encoding="UTF-8"?>\n<oor:items xmlns:oor="http://openoffice.org/2001/registry">{items}</oor:items>'
    )
    command = [
        program,
        f"-env:UserInstallation={profile.as_uri()}",
        *("--headless", "--norestore", "--nologo", "--nodefault", "--nolockcheck"),
        *("--convert-to", suffix.removeprefix("."), "--outdir", str(folder), str(old)),
    ]
    with (folder / "said").open("w+b") as said:
        process = subprocess.Popen(  # noqa: S603 - a program of the system, on a file name of our own
            command,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            cwd=folder,
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "LANG": "C.UTF-8", "TMPDIR": str(folder)},
        )
        try:
            _limit(process.pid, seconds)
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise exceeded("seconds", round(seconds, 1), round(seconds, 1)) from None
        finally:
            _end(process)
        said.seek(0)
        return said.read().decode(errors="replace").strip()


def _limit(pid: int, seconds: float) -> None:
    """Set from outside, just after the start: what it starts itself has the same limits."""
    with suppress(AttributeError, OSError, ValueError):  # not Linux, or it has ended
        for limit, value in (
            (resource.RLIMIT_CPU, int(seconds) + 1),
            (resource.RLIMIT_FSIZE, _OUTPUT_BYTES),
            (resource.RLIMIT_AS, _ADDRESS_BYTES),
        ):
            resource.prlimit(pid, limit, (value, value))


def _end(process: "subprocess.Popen[bytes]") -> None:
    """It and all it started: the program is a script that starts a starter that starts LibreOffice.

    They stay in the process group of the reader, so that they go with it if it is killed.
    """
    import psutil

    family = []
    with suppress(psutil.Error):
        parent = psutil.Process(process.pid)
        parent.suspend()  # so that none is started while we look
        family = [*parent.children(recursive=True), parent]
    for one in family:
        with suppress(psutil.Error):
            one.kill()
    process.wait()


def _has_module(program: Path, module: str) -> bool:
    """Whether a LibreOffice without a part was installed; true where one cannot tell."""
    libraries = {"writer": "libswlo.so", "impress": "libsdlo.so"}
    folder = program.resolve().parent
    return (folder / libraries[module]).exists() or not any(
        (folder / one).exists() for one in (*libraries.values(), "soffice.bin")
    )


def _missing(module: str) -> UnsupportedSource:
    command = f"sudo apt-get install -y --no-install-recommends libreoffice-{module}-nogui"
    if not shutil.which("apt-get"):
        if shutil.which("dnf"):
            command = f"sudo dnf install -y libreoffice-{module}"
        elif shutil.which("brew"):
            command = "brew install --cask libreoffice"
    return UnsupportedSource(
        f"Files of this type are read with {NAME}, which is not installed; run: {command}", command=command
    )
