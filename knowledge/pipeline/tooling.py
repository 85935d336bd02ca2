"""What tools and systems make for themselves: left out of every import, and of archives that are read as one text."""

from collections.abc import Container
from typing import Final

_FOLDERS: Final = frozenset({"__macosx", "__pycache__", "__pypackages__", "bower_components", "jspm_packages", "node_modules"})
_FILES: Final = frozenset({".ds_store", "desktop.ini", "ehthumbs.db", "thumbs.db"})
_BEGINNINGS: Final = ("~$", "._")  #: what an office program lays beside an open file, and a Mac beside any on a foreign disk
_MARKS: Final = ("CACHEDIR.TAG", "pyvenv.cfg")  #: a folder that holds one is a cache, or an environment of installed packages


def is_tool_folder(name: str) -> bool:
    return name.lower() in _FOLDERS


def is_tool_file(name: str) -> bool:
    return name.lower() in _FILES or name.startswith(_BEGINNINGS)


def is_marked(names: Container[str]) -> bool:
    """Whether what a folder holds says that all of it can be made again. Such a mark counts in inner folders only."""
    return any(mark in names for mark in _MARKS)
