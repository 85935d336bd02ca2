"""Which job, base and item a log line is about, without passing them from hand to hand.

Whoever starts to work on something wraps it in `log_context`; the formatter adds the ids to every line written inside, also to
those of other libraries. A thread starts with an empty context: wrap what it does again.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

_ids: ContextVar[Mapping[str, str]] = ContextVar("knowledge_log_ids", default=MappingProxyType({}))


@contextmanager
def log_context(*, job: str | None = None, base: str | None = None, item: str | None = None) -> Iterator[None]:
    """Name what the lines logged inside are about; an id left out keeps the value of the surrounding context."""
    given = {"job": job, "base": base, "item": item}
    token = _ids.set({**_ids.get(), **{name: value for name, value in given.items() if value is not None}})
    try:
        yield
    finally:
        _ids.reset(token)


def log_ids() -> Mapping[str, str]:
    """The ids of the current context: any of `job`, `base`, `item`."""
    return _ids.get()
