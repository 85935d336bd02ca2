"""What tools make for tools: left out of every import, whoever asks for the folder above."""

from collections.abc import Container
from typing import Final

_FOLDERS: Final = frozenset({"__macosx", "__pycache__", "__pypackages__", "bower_components", "jspm_packages", "node_modules"})
_FILES: Final = frozenset({"desktop.ini", "ehthumbs.db", "thumbs.db"})
_MARKS: Final = ("CACHEDIR.TAG", "pyvenv.cfg")  #: a folder that holds one is a cache, or an environment of installed packages
_OFFICE_LOCK: Final = "~$"  #: begins the file that an office program lays beside one that is open


def is_tool_folder(name: str) -> bool:
    return name.lower() in _FOLDERS


def is_tool_file(name: str) -> bool:
    return name.lower() in _FILES or name.startswith(_OFFICE_LOCK)


def is_marked(names: Container[str]) -> bool:
    """Whether what a folder holds says that all of it can be made again. Such a mark counts in inner folders only."""
    return any(mark in names for mark in _MARKS)
