"""What an item's `data` may hold beside its columns: JSON, each key only where its item needs it.

What a bundle brings in is looked at in `bases.bundle_data`. Rows that an older version imported may hold anything.
"""

from enum import StrEnum


class DataKey(StrEnum):
    """Written once, when the row is made, if nothing else is said."""

    CONTENT = "content"
    """Text of a note, as it was typed. Written by `ingestion.incoming`; does not travel with lists."""
    PATH_BYTES = "path_bytes"
    """Percent-encoded path of a file or folder whose name is not UTF-8: `source` shows such bytes as U+FFFD. By
    `sources.directory`."""
    CONFINED = "confined"
    """True: a client brought it in, so its source is read below the import roots only. By `ingestion.origin`."""
    INCLUDE = "include"
    """List of patterns in the form of .gitignore: the files that are taken of a directory. On the one that was added, by
    `ingestion.incoming`."""
    EXCLUDE = "exclude"
    """The same for what is left out."""

    ARCHIVE = "archive"
    """Percent-encoded path of the archive on disk that a file or folder came out of; with `MEMBER`. By `sources.archive`."""
    MEMBER = "member"
    """Where in that archive it lies, parts joined by `/`, the names of archives inside it included."""
    OCCURRENCE = "occurrence"
    """Integer, 2 and up: which of the members of an archive that share one name. By `sources.archive`."""

    SIZE = "size"
    """Bytes of a child's file, where the scan knew them. By `ingestion.prepare`, at each scan that finds it changed."""
    STAMP = "stamp"
    """Text that is another one when a child's file has changed: `<bytes>:<nanoseconds>` of the file, or of the archive that it
    is in. As `SIZE`."""
    MOUNT = "mount"
    """True: when something was last found in this folder, it was a mount point. By `ingestion.prepare`, at each scan."""
    SKIPPED = "skipped"
    """What the last scan of a container left out: `count`, `reasons` {reason: number}, and `sample`, a list of {`path`,
    `reason`} of which `catalog.items.page` gives none. By `ingestion.prepare`; absent if everything was taken."""

    CAPTURE = "capture"
    """What is known of the stored copy of a page: `job`, `url` (after redirects), `canonical`, `name`, `media_type`,
    `language`, `charset`, `converter`, `replaced_characters`, `fetched_at`, each only if known. By `ingestion.capture`, at
    each fetch."""
    TITLE = "title"
    """How a page calls itself. As `CAPTURE`."""

    CONVERTED_SHA256 = "converted_sha256"
    """Hexadecimal, of the stored bytes that the Markdown at `indexed_path` was made of. By `ingestion.convert`, at each
    conversion; removed when the file is read itself."""
