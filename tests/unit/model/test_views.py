"""What people are shown of an item: names as they know them, never those of copies."""

from datetime import UTC, datetime

import pytest

from knowledge.model.ids import BaseId, ItemId
from knowledge.model.status import ItemStatus, ItemType
from knowledge.model.views import Item

AT = datetime(2026, 3, 1, tzinfo=UTC)
FILE, FOLDER, NOTE, URL = ItemType.FILE, ItemType.DIRECTORY, ItemType.NOTE, ItemType.URL


@pytest.mark.parametrize(
    ("name", "type_", "source", "stored", "title"),
    [
        ("scan.pdf", FILE, "/home/k/scan.pdf", "scan.pdf", None),
        ("scan.pdf", FILE, "/home/k/scan.pdf", "scan_1.pdf", None),
        ("C: notes?.md", FILE, "/home/k/C: notes?.md", "C_ notes_.md", None),
        ("docs/in: it/scan.pdf", FILE, "/home/k/docs/in: it/scan.pdf", "docs_1/in_ it/scan_2.pdf", None),
        ("docs", FOLDER, "/home/k/docs", "docs_1", None),
        ("docs/inside", FOLDER, "/home/k/docs/inside", "docs/inside", None),
        ("pack.zip/a/b.txt", FILE, "/home/k/pack.zip/a/b.txt", "pack.zip/a/b.txt", None),
        ("/etc/hosts", FILE, "/etc/hosts", "root/etc/hosts", None),
        ("docs/deep/scan.pdf", FILE, "scan.pdf", "docs/deep/scan.pdf", None),
        ("Soup for twelve", NOTE, "Soup for twelve", "Soup for twelve_3.md", None),
        ("The lamp", URL, "https://a.example/lamp", "The lamp_1.md", "The lamp"),
        ("a.example/The lamp", URL, "https://a.example/lamp", "a.example/The lamp.md", "The lamp"),
        ("https://a.example/lamp", URL, "https://a.example/lamp", None, None),
        ("https://a.example/lamp", URL, "https://a.example/lamp", "a.example/lamp.md", None),
    ],
)
def test_name_is_what_was_added(name, type_, source, stored, title):
    """Of a file inside a directory the path in it, as on the person's disk; whatever its copy and its Markdown are called."""
    item = Item(
        ItemId("i"), BaseId("b"), None, type_, source, ItemStatus.COMPLETED, None, {}, stored, "elsewhere/copy.md", 1, (), None,
        AT, AT, data={"title": title} if title else {},
    )  # fmt: skip

    assert name == item.name
