"""Migrations: the migrated tables are the declared ones, and no other version is ever used."""

import re
import threading

import pytest
from sqlalchemy import inspect, text

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
