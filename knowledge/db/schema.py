"""The catalogue's tables: brought to this version by one command, and refused at start if they are of another."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect

from knowledge.db.engine import Database, Tx
from knowledge.errors import SchemaMismatch

_MIGRATIONS = Path(__file__).with_name("migrations")


def upgrade(db: Database) -> str:
    """Bring the tables to this version, in one transaction; returns the version's name.

    Raises:
        SchemaMismatch: they are of a version that this one does not know, as a newer one has left them.
    """
    with db.write(durable=True) as tx:
        return _upgrade(tx)


def make_if_new(db: Database) -> None:
    """Make the tables of an empty catalogue; any other is left as it is. Safe when many processes start at once."""
    with db.read() as tx:
        if not _is_empty(tx):
            return
    with db.write(durable=True) as tx:
        if _is_empty(tx):  # else another process was quicker
            _upgrade(tx)


def require_current(db: Database) -> None:
    """Raises `SchemaMismatch` unless the tables are exactly of this version."""
    with db.read() as tx:
        found = version(tx)
    if found != _head():
        raise SchemaMismatch(found=found, wanted=_head())


def _upgrade(tx: Tx) -> str:
    found, wanted = version(tx), _head()
    if found != wanted:
        if found is not None and found not in _known():
            raise SchemaMismatch(
                "The catalogue's tables are of a version that this one does not know.", found=found, wanted=wanted
            )
        config = _config()
        config.attributes["connection"] = tx
        command.upgrade(config, "head")
    return wanted


def _is_empty(tx: Tx) -> bool:
    return not inspect(tx).get_table_names()


def _known() -> set[str]:
    return {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}


def version(tx: Tx) -> str | None:
    """The version of the tables, None if there are none."""
    return MigrationContext.configure(tx).get_current_revision()


def _head() -> str:
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None
    return head


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.set_main_option("path_separator", "os")
    return config
