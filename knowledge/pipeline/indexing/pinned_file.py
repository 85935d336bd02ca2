"""Weights and vocabularies that are used only if they are byte for byte the ones we tried."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from knowledge.errors import ConfigurationError


def package_folder(package: str, *, extra: str) -> Path:
    """Where an installed data package lies, without importing it.

    Raises:
        ConfigurationError: it is not installed; the message names the extra that brings it.
    """
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ConfigurationError(
            f"The package {package!r} is not installed; install knowledge-pipeline[{extra}].", package=package, extra=extra
        )
    return Path(next(iter(found.submodule_search_locations)))


def pinned_path(path: Path, sha256: str) -> Path:
    """`path`, after its whole content was checked.

    Raises:
        ConfigurationError: it cannot be read, or its SHA-256 is another.
    """
    with _readable(path), path.open("rb") as file:
        _require(path, hashlib.file_digest(file, "sha256").hexdigest(), sha256)
    return path


def pinned_bytes(path: Path, sha256: str) -> bytes:
    """The content of `path`; raises as `pinned_path`."""
    with _readable(path):
        content = path.read_bytes()
    _require(path, hashlib.sha256(content).hexdigest(), sha256)
    return content


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigurationError(f"The model file {path.name} cannot be read: {error.strerror}.", file=str(path)) from error


def _require(path: Path, found: str, wanted: str) -> None:
    if found != wanted:
        raise ConfigurationError(f"The model file {path.name} is not the expected one.", file=str(path), sha256=found)
