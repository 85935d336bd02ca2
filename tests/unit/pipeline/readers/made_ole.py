"""OLE files made for the tests of readers: storages and streams as dicts and bytes. Source of the layout: [MS-CFB]."""

import struct
from collections.abc import Mapping
from typing import Any

SECTOR, MINI = 512, 64
END, FREE, FAT, NONE = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD, 0xFFFFFFFF
MINI_LIMIT = 4096  #: shorter streams lie in the mini stream

Tree = Mapping[str, Any]  #: names to bytes, or to another tree


def ole(tree: Tree) -> bytes:
    """An OLE file with this content below its root."""
    entries: list[list[Any]] = [["Root Entry", 5, NONE, NONE, b""]]
    _add(entries, 0, tree)
    mini, mini_fat = bytearray(), []
    chains: list[bytes] = []  #: what lies in sectors of its own, one after the other
    starts: dict[int, int] = {}
    fat: list[int] = []

    def put(data: bytes) -> int:
        if not data:
            return END
        first, count = len(fat), -(-len(data) // SECTOR)
        fat.extend([*range(first + 1, first + count), END])
        chains.append(data.ljust(count * SECTOR, b"\0"))
        return first

    for number, entry in enumerate(entries):
        data = entry[4]
        if entry[1] != 2:
            continue
        if len(data) >= MINI_LIMIT:
            starts[number] = put(data)
        elif data:
            first, count = len(mini_fat), -(-len(data) // MINI)
            mini_fat.extend([*range(first + 1, first + count), END])
            mini += data.ljust(count * MINI, b"\0")
            starts[number] = first
    entries[0][4] = bytes(mini)
    starts[0] = put(bytes(mini))
    mini_fat_start = put(b"".join(struct.pack("<I", link) for link in mini_fat))
    directory = b"".join(_entry(entry, starts.get(number, END)) for number, entry in enumerate(entries))
    directory_start = put(directory.ljust(-(-len(directory) // SECTOR) * SECTOR, b"\0"))
    fat_sectors = 1
    while len(fat) + fat_sectors > fat_sectors * SECTOR // 4:
        fat_sectors += 1
    fat_start = len(fat)
    table = [*fat, *[FAT] * fat_sectors]
    table += [FREE] * (fat_sectors * SECTOR // 4 - len(table))
    places = [*range(fat_start, fat_start + fat_sectors)]
    head = struct.pack(
        "<8s16sHHHHH6xIIIIIIIII",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        b"",
        0x3E,
        3,
        0xFFFE,
        9,
        6,
        0,
        fat_sectors,
        directory_start,
        0,
        MINI_LIMIT,
        mini_fat_start,
        -(-len(mini_fat) * 4 // SECTOR),
        END,
        0,
    )
    head += b"".join(struct.pack("<I", place) for place in [*places, *[FREE] * (109 - len(places))])
    return head + b"".join(chains) + b"".join(struct.pack("<I", link) for link in table)


def _add(entries: list[list[Any]], parent: int, tree: Tree) -> None:
    """Children hang on their parent as a list: each the right sibling of the one before."""
    before = None
    for name, content in tree.items():
        number = len(entries)
        entries.append(
            [name, 2 if isinstance(content, bytes) else 1, NONE, NONE, content if isinstance(content, bytes) else b""]
        )
        if before is None:
            entries[parent][3] = number
        else:
            entries[before][2] = number
        before = number
        if not isinstance(content, bytes):
            _add(entries, number, content)


def _entry(entry: list[Any], start: int) -> bytes:
    name, kind, right, child, data = entry
    encoded = (name + "\0").encode("utf-16-le")
    return struct.pack(
        "<64sHBBIII16sIQQIQ",
        encoded,
        len(encoded),
        kind,
        1,
        NONE,
        right,
        child,
        b"",
        0,
        0,
        0,
        start if data else END,
        len(data),
    )
