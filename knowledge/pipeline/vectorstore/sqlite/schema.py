"""What lies in `index.sqlite`, and the proof that a file is the index of this base in this layout.

identity     one row: layout version, base id, width of its vectors (null without embedder)
state        one row: `generation` grows with every write; `recoded` is the one of the last renewal of all codes;
             `next_body` is never given twice
content      each distinct text of a leaf once, by SHA-256
material     one leaf: item id, concept id, its content
unit         one search unit: its slice of the content in code points and in bytes of UTF-8, its page, its locator, its body
body         each distinct text of a unit once, by SHA-256; the text itself is a slice of some content
lexical      FTS5 over the tokens of bodies, rowid = body id, holding no text
vector       the vector of a body as it was given: little-endian float32
code_block   records of 1,024 vectors, see `codes`; derived from `vector`
code_centre  what the codes are centred on

`user_version` of the file tells whether text is still to be wiped, see `mark`.

Bodies are the unit of sharing: a text that several units have, or that outlives a rebuild, is tokenised and embedded once.
"""

from dataclasses import dataclass
from typing import Final

import apsw

from knowledge.errors import DimensionMismatch, IndexCorrupt, IndexMismatch
from knowledge.pipeline.vectorstore.sqlite.connection import writing

LAYOUT: Final = 2  #: raise on any change below or of the analyser: older files count as lost, newer ones are refused

_TABLES: Final = """
CREATE TABLE identity (
    id INTEGER PRIMARY KEY CONSTRAINT ck_identity_single CHECK (id = 1),
    layout INTEGER NOT NULL, base_id TEXT NOT NULL, dimensions INTEGER, created_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE TABLE state (
    id INTEGER PRIMARY KEY CONSTRAINT ck_state_single CHECK (id = 1),
    generation INTEGER NOT NULL, recoded INTEGER NOT NULL, next_body INTEGER NOT NULL, bodies INTEGER NOT NULL,
    slots INTEGER NOT NULL, dead_slots INTEGER NOT NULL, centred_on INTEGER NOT NULL
);
INSERT INTO state VALUES (1, 1, 1, 1, 0, 0, 0, 0);
CREATE TABLE content (id INTEGER PRIMARY KEY, hash BLOB NOT NULL CONSTRAINT uq_content_hash UNIQUE, text TEXT NOT NULL);
CREATE TABLE material (
    id INTEGER PRIMARY KEY,
    item_id TEXT NOT NULL CONSTRAINT uq_material_item UNIQUE,
    path TEXT NOT NULL CONSTRAINT uq_material_path UNIQUE,
    content_id INTEGER NOT NULL
);
CREATE INDEX ix_material_content ON material (content_id);
CREATE TABLE unit (
    material_id INTEGER NOT NULL, position INTEGER NOT NULL,
    char_start INTEGER NOT NULL, char_end INTEGER NOT NULL, byte_start INTEGER NOT NULL, byte_end INTEGER NOT NULL,
    page INTEGER, locator TEXT, body_id INTEGER NOT NULL,
    PRIMARY KEY (material_id, position)
) WITHOUT ROWID;
CREATE INDEX ix_unit_body ON unit (body_id);
CREATE TABLE body (id INTEGER PRIMARY KEY, hash BLOB NOT NULL CONSTRAINT uq_body_hash UNIQUE);
CREATE TABLE vector (id INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE code_block (no INTEGER PRIMARY KEY, records BLOB NOT NULL);
CREATE TABLE code_block_state (
    no INTEGER PRIMARY KEY, first_body INTEGER NOT NULL, used INTEGER NOT NULL, generation INTEGER NOT NULL
);
CREATE TABLE code_centre (id INTEGER PRIMARY KEY CONSTRAINT ck_centre_single CHECK (id = 1), mean BLOB NOT NULL);
CREATE VIRTUAL TABLE lexical USING fts5(tokens, content='', contentless_delete=1, tokenize='porter ascii');
"""


@dataclass(frozen=True, slots=True)
class _Identity:
    layout: int
    base_id: str
    dimensions: int | None


def lay_out(connection: apsw.Connection, base_id: str, dimensions: int | None) -> None:
    """Make the tables of a base's index if the open file is blank."""
    with writing(connection):
        if _identity(connection) is None:
            _lay_out(connection, base_id, dimensions)


def mount(connection: apsw.Connection, base_id: str, dimensions: int | None) -> None:
    """Make sure that the open file is this base's index.

    Raises:
        IndexCorrupt: it is blank, or of an older layout, which nothing here can read.
        IndexMismatch: it belongs to another base, was written by a newer program, or is no index at all.
        DimensionMismatch: its vectors have another width.
    """
    found = _identity(connection)
    if found is None:
        raise IndexCorrupt("The index of this base is empty; `item reindex --interrupted` makes it again.", base_id=base_id)
    if found.base_id != base_id:
        raise IndexMismatch("This index file belongs to another base.", base_id=base_id, found=found.base_id)
    if found.layout < LAYOUT:
        raise IndexCorrupt(
            "The index of this base has an older layout; index its items again.", base_id=base_id, found_layout=found.layout
        )
    if found.layout != LAYOUT:
        raise IndexMismatch("This index file was written by a newer version.", base_id=base_id, found_layout=found.layout)
    if found.dimensions is None and dimensions is not None:
        with writing(connection):
            _widen(connection, dimensions)
    elif found.dimensions != dimensions:
        raise DimensionMismatch(base_id=base_id, expected=dimensions, found=found.dimensions)


def _identity(connection: apsw.Connection) -> _Identity | None:
    """Whose index the file is; None if it is blank."""
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if not names:
        return None
    if "identity" not in names:
        raise IndexMismatch("This file is a database, but not an index.", tables=sorted(names)[:5])
    row = connection.execute("SELECT layout, base_id, dimensions FROM identity").fetchone()
    if row is None:
        raise IndexMismatch("This index file names no base.")
    return _Identity(*row)


def _lay_out(connection: apsw.Connection, base_id: str, dimensions: int | None) -> None:
    for _ in connection.execute(_TABLES):
        pass
    # Larger pages than the default 4,050 bytes fit our page size and make fewer of them.
    connection.execute("INSERT INTO lexical(lexical, rank) VALUES ('pgsz', 8000)")
    connection.execute(
        "INSERT INTO identity (id, layout, base_id, dimensions) VALUES (1, ?, ?, ?)", (LAYOUT, base_id, dimensions)
    )
    if dimensions is not None:
        connection.execute("INSERT INTO code_centre VALUES (1, zeroblob(?))", (4 * dimensions,))


def _widen(connection: apsw.Connection, dimensions: int) -> None:
    """A base that searched by words alone got its embedder: its units get vectors one by one, as they are indexed again."""
    connection.execute("UPDATE identity SET dimensions = ? WHERE dimensions IS NULL", (dimensions,))
    connection.execute("INSERT OR IGNORE INTO code_centre VALUES (1, zeroblob(?))", (4 * dimensions,))
