"""Migrations: the migrated tables are the declared ones, and no other version is ever used."""

import re
import threading

import pytest
from sqlalchemy import inspect, text
from sqlalchemy.exc import IntegrityError

from knowledge.catalog.rows import METADATA
from knowledge.db import schema
from knowledge.db.engine import Database
from knowledge.errors import SchemaMismatch


@pytest.fixture
def db(tmp_path):
    db = Database(f"sqlite:///{tmp_path / 'catalogue.sqlite'}")
    yield db
    db.dispose()


@pytest.fixture
def declared(tmp_path):
    db = Database(f"sqlite:///{tmp_path / 'declared.sqlite'}")
    with db.write() as tx:
        METADATA.create_all(tx)
    yield db
    db.dispose()


def words(sql):
    return re.sub(r"\s+", " ", sql or "").strip()


def described(db):
    """Tables, columns, keys, named CHECKs and indexes with their conditions, in comparable form."""
    with db.read() as tx:
        found = inspect(tx)
        tables = {}
        for table in sorted(set(found.get_table_names()) - {"alembic_version"}):
            tables[table] = {
                "columns": {
                    column["name"]: (str(column["type"]), column["nullable"], column["default"])
                    for column in found.get_columns(table)
                },
                "key": found.get_pk_constraint(table)["constrained_columns"],
                "checks": {check["name"]: words(check["sqltext"]) for check in found.get_check_constraints(table)},
                "foreign": {
                    key["name"]: (key["constrained_columns"], key["referred_table"], key["referred_columns"], key["options"])
                    for key in found.get_foreign_keys(table)
                },
                "unique": {key["name"]: key["column_names"] for key in found.get_unique_constraints(table)},
                "indexes": dict(
                    sorted(
                        (row.name, words(row.sql))
                        for row in tx.execute(
                            text(
                                "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = :t AND sql IS NOT NULL"
                            ),
                            {"t": table},
                        )
                    )
                ),
            }
        return tables


def test_the_migrated_tables_are_the_declared_ones(db, declared):
    """Whoever upgrades has exactly what the code expects: columns, keys, CHECKs, and indexes with their WHERE."""
    schema.upgrade(db)

    assert described(declared) == described(db)


def test_every_check_and_foreign_key_has_a_name(declared):
    """Names appear in errors, so none may be missing."""
    nameless = [
        table
        for table, parts in described(declared).items()
        if None in parts["checks"] or None in parts["foreign"] or None in parts["unique"]
    ]

    assert [] == nameless


def test_upgrade_can_be_repeated(db):
    """A second upgrade changes nothing and says the same version."""
    first = schema.upgrade(db)
    before = described(db)

    assert first == schema.upgrade(db)
    assert before == described(db)


def test_tables_of_another_version_are_refused(db):
    """Start-up names what it found and what it wants; the message names the command."""
    schema.upgrade(db)
    with db.write() as tx:
        tx.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(SchemaMismatch, match="knowledge db upgrade") as refused:
        schema.require_current(db)
    assert "9999" == refused.value.details["found"]


def test_a_catalogue_without_tables_is_refused(db):
    """An empty file is not taken for a catalogue by those who only use it."""
    with pytest.raises(SchemaMismatch):
        schema.require_current(db)


def test_a_newer_catalogue_is_not_touched_by_upgrade(db):
    """An older program leaves the tables of a newer one alone, with a typed error."""
    schema.upgrade(db)
    with db.write() as tx:
        tx.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(SchemaMismatch, match="does not know"):
        schema.upgrade(db)
    with db.read() as tx:
        assert "9999" == schema.version(tx)


def test_a_failed_upgrade_leaves_nothing(db, monkeypatch):
    """Tables and their version are one transaction: half a schema never exists."""

    def breaks(config, target):
        with monkeypatch.context() as undone:
            undone.undo()
            config.attributes["connection"].execute(text("CREATE TABLE half (id TEXT)"))
        raise RuntimeError("as ordered")

    monkeypatch.setattr(schema.command, "upgrade", breaks)
    with pytest.raises(RuntimeError):
        schema.upgrade(db)

    with db.read() as tx:
        assert [] == inspect(tx).get_table_names()


def test_many_processes_may_start_on_no_catalogue_at_all(tmp_path):
    """Whoever comes first makes the tables; the others wait for them instead of finding none."""
    found = []

    def start():
        db = Database(f"sqlite:///{tmp_path / 'new' / 'catalogue.sqlite'}")
        try:
            schema.make_if_new(db)
            schema.require_current(db)
            found.append("current")
        except Exception as error:
            found.append(repr(error))
        finally:
            db.dispose()

    starters = [threading.Thread(target=start) for _ in range(8)]
    for starter in starters:
        starter.start()
    for starter in starters:
        starter.join()

    assert ["current"] * 8 == found


def test_an_empty_file_left_by_a_crash_becomes_a_catalogue(db):
    """A process that died before its first commit leaves a file of 0 bytes; the next start is not refused for ever."""
    db.path.touch()

    schema.make_if_new(db)

    schema.require_current(db)


def test_a_foreign_database_is_not_taken_over(db):
    """A file with other people's tables is left alone and refused."""
    with db.write() as tx:
        tx.execute(text("CREATE TABLE recipes (id TEXT)"))

    schema.make_if_new(db)

    with pytest.raises(SchemaMismatch):
        schema.require_current(db)


AT = "2026-01-02 03:04:05.000000"
ITEMS = (  # id, parent, type, path, indexed path, status, error, expanded_at
    ("root", None, "directory", "docs", None, "completed", None, AT),
    ("inner", "root", "directory", "docs/inner", None, "processing", None, AT),
    ("leaf", "inner", "file", "docs/inner/a.md", None, "completed", None, None),
    ("scan", "inner", "file", "docs/inner/b.pdf", "docs/inner/b.md", "completed", None, None),
    ("bad", "root", "file", "docs/c.pdf", None, "failed", "corrupt", None),
    ("busy", None, "directory", "other", None, "preparing", None, None),
    ("page", None, "url", "page.md", None, "completed", None, None),
    ("note", None, "note", "note.md", None, "reading", None, None),
    ("going", None, "file", "d.md", None, "deleting", None, None),
)


def insert(tx, table, **values):
    """One row, times filled in."""
    row = {"created_at": AT, "updated_at": AT} | values
    names = [name for name in row if row[name] is not ...]
    marks = ", ".join("?" for _ in names)
    tx.exec_driver_sql(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})", tuple(row[name] for name in names))


def insert_item(tx, item_id, parent, kind, path, status, **more):
    kept = {"data": '{"size": 3}', "error_detail": "{}", "notices": '["partial_text"]'} | more
    values = {"id": item_id, "base_id": "b", "group_id": parent, "type": kind, "source": f"/from/{path}", "status": status}
    insert(tx, "knowledge_item", relative_path=path, **values, **kept)


@pytest.fixture(params=["0002", "0003"])
def lived_in(db, request):
    """A catalogue as an older version left it, with a tree two folders deep, names, and jobs of each state."""
    no_times = {"created_at": ..., "updated_at": ...}
    with db.write() as tx:
        config = schema._config()
        config.attributes["connection"] = tx
        schema.command.upgrade(config, request.param)
        insert(tx, "knowledge_group", id="g", name="shelf", **no_times)
        settings = {"chunk_size": 1024, "chunk_overlap": 200, "chunk_strategy": "structured", "chunk_separator": "x"}
        base = {"name": "base", "group_id": "g", "status": "completed", "fail_on_empty": 0, "shard": "main"}
        insert(tx, "knowledge_base", id="b", **base, **settings)
        for item_id, parent, kind, path, indexed, status, error, expanded in ITEMS:
            more = {"indexed_path": indexed, "error": error, "expanded_at": expanded, "chunk_count": 2}
            insert_item(tx, item_id, parent, kind, path, status, **more)
        for name, holder in (("docs", "root"), ("other", "busy"), ("page.md", "page"), ("note.md", "note"), ("d.md", "going")):
            insert(tx, "knowledge_path", base_id="b", folded=name, item_id=holder, **no_times)
        for job_id, kind, status, item in (
            ("j1", "knowledge.prepare-root", "running", "busy"),
            ("j2", "knowledge.index-documents", "pending", "note"),
            ("j3", "knowledge.delete-subtree", "completed", "going"),
        ):
            kept = {"error_detail": "{}", "input": "{}", "progress": "{}", "scheduled_at": AT, "idempotency_key": job_id}
            counts = {"priority": 0, "attempt": 0, "losses": 0, "publishes": 0}
            kind_of = {"type": kind, "base_id": "b", "shard": "main", "track": "index", "recovery": "abandon", "status": status}
            owner = {"run_token": "t", "lease_until": AT} if status == "running" else {}
            ended = {"finished_at": AT} if status == "completed" else {}
            insert(tx, "knowledge_job", id=job_id, **kind_of, **kept, **counts, **owner, **ended)
            insert(tx, "knowledge_job_item", job_id=job_id, item_id=item, **no_times)
    return db


def every_row(db, columns):
    """Each table's rows in those columns, sorted; the migration's own table left out."""
    with db.read() as tx:
        return {
            table: sorted(tuple(map(repr, row)) for row in tx.exec_driver_sql(f"SELECT {', '.join(names)} FROM {table}"))
            for table, names in columns.items()
        }


def test_a_catalogue_that_was_lived_in_keeps_every_row(lived_in, declared):
    """Nothing is lost or changed by an upgrade: trees, names, jobs and what they name; the file is sound afterwards."""
    with lived_in.read() as tx:
        found = inspect(tx)
        columns = {
            table: [column["name"] for column in found.get_columns(table)]
            for table in found.get_table_names()
            if table not in ("alembic_version", "knowledge_path")  # which gets more rows; see below
        }
    before = every_row(lived_in, columns)

    schema.upgrade(lived_in)

    assert before == every_row(lived_in, columns)
    assert (len(ITEMS), 3, 3) == tuple(len(before[f"knowledge_{table}"]) for table in ("item", "job", "job_item"))
    assert described(declared) == described(lived_in)
    with lived_in.read() as tx:
        assert ["ok"] == [row[0] for row in tx.exec_driver_sql("PRAGMA integrity_check")]
        assert [] == tx.exec_driver_sql("PRAGMA foreign_key_check").all()


def test_every_stored_path_of_an_old_catalogue_gets_its_holder(lived_in):
    """Also in folders, where two names once could differ in case only: the first of them has it."""
    with lived_in.write() as tx:
        insert_item(tx, "twin", "inner", "file", "docs/inner/B.md", "completed")
        insert_item(tx, "umlaut", "inner", "file", "docs/inner/RU\u0308CK.md", "completed")

    schema.upgrade(lived_in)

    with lived_in.read() as tx:
        held = {row.folded: row.item_id for row in tx.exec_driver_sql("SELECT folded, item_id FROM knowledge_path")}
    at_the_top = {"docs": "root", "other": "busy", "page.md": "page", "note.md": "note", "d.md": "going"}
    inside = {"inner": "inner", "inner/a.md": "leaf", "inner/b.pdf": "scan", "inner/b.md": "scan", "c.pdf": "bad"}
    inside["inner/r\u00fcck.md"] = "umlaut"
    assert at_the_top | {f"docs/{path}": holder for path, holder in inside.items()} == held


def test_what_the_new_version_allows_is_allowed_in_an_old_catalogue(lived_in):
    """An archive that is being expanded, with children; and nonsense about it is refused as in a new one."""
    schema.upgrade(lived_in)
    with lived_in.write() as tx:
        insert_item(tx, "zip", None, "archive", "a.zip", "preparing")
        insert_item(tx, "member", "zip", "file", "a.zip/a.md", "processing")
        insert_item(tx, "map", None, "sitemap", "map", "preparing")
        tx.exec_driver_sql(f"UPDATE knowledge_item SET status = 'completed', expanded_at = '{AT}' WHERE id = 'zip'")

    for nonsense in (
        ("x", None, "archive", "x", "embedding"),
        ("x", None, "file", "x", "preparing"),
        ("x", None, "album", "x", "processing"),
        ("x", "nobody", "file", "x", "processing"),
        ("x", None, "file", "a.zip/a.md", "processing"),
    ):
        with pytest.raises(IntegrityError), lived_in.write() as tx:
            insert_item(tx, *nonsense)
    with lived_in.write() as tx:
        tx.exec_driver_sql("DELETE FROM knowledge_item WHERE id = 'zip'")
    with lived_in.read() as tx:
        left = tx.exec_driver_sql("SELECT id, quality FROM knowledge_item WHERE id IN ('member', 'leaf')").all()
        assert [("leaf", "{}")] == [tuple(row) for row in left]
