"""Faults at the seams: a port that does something else first, and a catalogue that refuses a statement."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sqlalchemy.exc import IntegrityError

from knowledge.service import KnowledgeService
from tests.house import House

Refused = IntegrityError  #: what a statement raises that `refusing` forbids


class Hooked:
    """A real port; the named methods call their hook with the same arguments before they do their work."""

    def __init__(self, port: Any, **before: Callable[..., object]) -> None:
        self._port, self._before = port, before

    def __getattr__(self, method: str) -> Any:
        found = getattr(self._port, method)
        if method not in self._before:
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            self._before[method](*arguments, **options)
            return found(*arguments, **options)

        return call


def raising(error: Exception) -> Callable[..., object]:
    """A hook that fails each time."""

    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@contextmanager
def hooked(house: House, **ports: dict[str, Callable[..., object]]) -> Iterator[None]:
    """Inside, these ports of the house's runtime are hooked: `hooked(house, files={"remove": raising(...)})`."""
    plain = house.rt
    house.rt = replace(plain, **{name: Hooked(getattr(plain, name), **before) for name, before in ports.items()})
    house.service = KnowledgeService(house.rt)
    try:
        yield
    finally:
        house.rt = plain
        house.service = KnowledgeService(plain)


@contextmanager
def refusing(house: House, statement: str) -> Iterator[None]:
    """Inside, the catalogue refuses statements such as `INSERT ON knowledge_job WHEN NEW.type = …`."""
    with house.db.write() as tx:
        tx.exec_driver_sql(f"CREATE TRIGGER refused BEFORE {statement} BEGIN SELECT RAISE(ABORT, 'refused'); END")
    try:
        yield
    finally:
        with house.db.write() as tx:
            tx.exec_driver_sql("DROP TRIGGER refused")
