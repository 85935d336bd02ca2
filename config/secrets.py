"""Secrets: made when nobody chose one, kept where only their owner reads, and never written to a log.

Every secret that this process learns is given to `hide`; `redact` then blots it out of any text.
"""

import os
import re
import secrets
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

MASK: Final = "****"
SHORTEST: Final = 4  #: characters; blotting out shorter ones would only damage the text

_URL_PASSWORD: Final = re.compile(r"(?P<before>[a-z][a-z0-9+.-]*://[^\s/@:'\"]*:)(?P<password>[^\s/@'\"]+)(?=@)", re.IGNORECASE)
_hidden: set[str] = set()


def hide(secret: str) -> str:
    """Have `redact` blot out this secret, as it is and as it looks inside a URL; returns it unchanged."""
    if len(secret) >= SHORTEST:
        _hidden.update({secret, quote(secret, safe=""), unquote(secret)})
    return secret


def hide_password_of(url: str) -> str:
    """`hide` the password inside a URL, if there is one; returns the URL unchanged."""
    hide(urlsplit(url).password or "")
    return url


def redact(text: str) -> str:
    """The text without any hidden secret and without any password inside a URL."""
    for secret in _hidden:
        text = text.replace(secret, MASK)
    return mask_url(text)


def mask_url(text: str) -> str:
    return _URL_PASSWORD.sub(rf"\g<before>{MASK}", text)


def kept_secret(path: Path) -> str:
    """The secret in this file; made by the first caller, the same for all others.

    Raises:
        OSError: the file can be neither read nor made.
    """
    made = kept_text(path, lambda: secrets.token_urlsafe(18))
    return hide(made.strip())


def kept_text(path: Path, make: Callable[[], str]) -> str:
    """The text of this file, readable by its owner only; `make` supplies it once, whoever comes first wins."""
    while True:
        try:
            return path.read_text(encoding="utf-8")
        except FileNotFoundError:
            write_private(path, make(), replace=False)


def write_private(path: Path, text: str, *, replace: bool = True) -> None:
    """Write a file of mode 600 so that readers see all of it or the old one; with `replace=False` an existing file stays."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mkstemp gives mode 600
    staged = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            staged.replace(path)
        else:
            try:
                path.hardlink_to(staged)
            except FileExistsError:
                return  # another process was first; its text counts
    finally:
        staged.unlink(missing_ok=True)
