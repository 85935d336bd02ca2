"""How values and errors travel between a client and the fleet: plain JSON, rebuilt as the same classes.

A command is one message: the name of a service method and its arguments. Its answer is `{"ok": value}` or `{"error": …}`.
"""

from functools import lru_cache
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from knowledge.errors import InvalidInput, JsonValue, KnowledgeError, all_errors

T = TypeVar("T")

COMMAND: Final = "knowledge.command"  #: the task that carries every command
MAX_COMMAND_BYTES: Final = 256 * 1024  #: the broker is no place for documents; notes up to this size may travel
MAX_ENTRIES: Final = 100  #: ids or inputs of one command; in the fleet's own process an operation takes any number
MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024  #: nor for the chunks of a whole directory

OPERATIONS: Final = frozenset(
    {
        "add_items",
        "base",
        "cancel_job",
        "chunks",
        "coverage",
        "create_base",
        "create_group",
        "delete_base",
        "delete_group",
        "delete_items",
        "enable_embedder",
        "failures",
        "file_path",
        "find_bases",
        "import_base",
        "item",
        "job",
        "list_groups",
        "list_items",
        "list_jobs",
        "patch_base",
        "preview",
        "reindex_interrupted",
        "reindex_items",
        "rename_group",
        "requeue_job",
        "restore_base",
        "search",
        "status_counts",
        "why",
        "workers",
    }
)
"""Methods of `KnowledgeService` that a client may call."""

MAY_WAIT: Final = frozenset(
    {
        "add_items",
        "delete_base",
        "delete_items",
        "enable_embedder",
        "import_base",
        "reindex_interrupted",
        "reindex_items",
        "restore_base",
        "search",
    }
)
"""Those that may wait: for the base lock, for a job to stop, for bytes, for an embedder. The others answer at once."""


QUESTIONS: Final = frozenset(
    {
        "base",
        "chunks",
        "coverage",
        "failures",
        "file_path",
        "find_bases",
        "item",
        "job",
        "list_groups",
        "list_items",
        "list_jobs",
        "preview",
        "search",
        "status_counts",
        "why",
        "workers",
    }
)
"""Those that change nothing, so that asking again for less is no loss. What has been done is told, however long it is."""


def dump(value: object, kind: Any) -> JsonValue:
    """A value of this type as JSON values.

    Raises:
        InvalidInput: it holds text that is no text, such as a path whose bytes are not UTF-8.
    """
    try:
        return _adapter(kind).dump_python(value, mode="json", exclude_unset=_is_patch(kind))
    except (PydanticSerializationError, UnicodeEncodeError) as error:
        raise InvalidInput("This holds characters that are no text.") from error


def load(value: JsonValue, kind: Any, name: str | None = None) -> Any:
    """The value again.

    Args:
        name: what it is called, for people.

    Raises:
        InvalidInput: it is not of this type; message and details name the first fault.
    """
    try:
        return _adapter(kind).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in (name, *first["loc"]) if part is not None)
        what = first["msg"].removeprefix("Value error, ")
        raise InvalidInput(f"{place}: {what}" if place else what, field=place or None) from error


def dump_error(error: KnowledgeError) -> JsonValue:
    """Whatever its details hold, as JSON values."""
    return to_jsonable_python(error.to_wire(), fallback=str)


def load_error(wire: JsonValue) -> KnowledgeError:
    """The error as the class it was raised as; an unknown code becomes `KnowledgeError`."""
    kind = all_errors().get(str(wire.get("code")), KnowledgeError)
    error = kind(str(wire.get("message", "")))
    error.details = dict(wire.get("details") or {})
    return error


@lru_cache(maxsize=256)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _is_patch(kind: Any) -> bool:
    """In a patch, what is not given means: leave it."""
    return getattr(kind, "__name__", "") == "BasePatch"
