"""The catalogue's tables: brought to this version by one command, and refused at start if they are of another."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from knowledge.db.engine import Database, Tx
from knowledge.errors import SchemaMismatch

_MIGRATIONS = Path(__file__).with_name("migrations")


def upgrade(db: Database) -> str:
    """Bring the tables to this version, in one transaction; returns the version's name."""
    config = _config()
    with db.write(durable=True) as tx:
        config.attributes["connection"] = tx
        command.upgrade(config, "head")
    return _head()


def require_current(db: Database) -> None:
    """Raises `SchemaMismatch` unless the tables are exactly of this version."""
    with db.read() as tx:
        found = version(tx)
    if found != _head():
        raise SchemaMismatch(found=found, wanted=_head())


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
