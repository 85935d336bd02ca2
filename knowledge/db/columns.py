"""Column types that mean the same on SQLite and Postgres."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import BigInteger, Enum
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from knowledge import clock

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def utc_now() -> datetime:
    """Now, in UTC, cut to the milliseconds that a column keeps."""
    now = datetime.fromtimestamp(clock.seconds(), UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


class UtcDateTime(TypeDecorator[datetime]):
    """An instant, stored as integer milliseconds since the epoch."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else (value - _EPOCH) // _MILLISECOND

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:
        return None if value is None else _EPOCH + value * _MILLISECOND


def value_enum(kind: type[StrEnum], name: str) -> Enum:
    """Stores the value, not the member's name, and brings its own CHECK under `name`."""
    return Enum(
        kind,
        name=name,
        native_enum=False,
        create_constraint=True,
        length=64,
        values_callable=lambda members: [member.value for member in members],
    )
