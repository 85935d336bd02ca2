"""What the items of a bundle may say in their `data`: the keys that this version reads, each for the items that have it.

A bundle is written by somebody else, and what it says is read much later, in jobs and lists. So everything is looked at once,
at the door: a key that no item of this type has, or that nobody knows, is left out; one of another type or size than ours is
refused. Markdown of conversions does not travel, so nothing that is known of it does either.
"""

from typing import Annotated, Final, Literal
from urllib.parse import unquote_to_bytes

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from knowledge.errors import InvalidInput
from knowledge.model.inputs import MAX_NOTE_CHARACTERS, Pattern
from knowledge.model.status import ItemType
from knowledge.model.urls import MAX_CHARACTERS
from knowledge.pipeline.sources.ignore import require_patterns

MAX_NUMBER: Final = 2**53 - 1  #: what every reader of JSON keeps exactly
_MAX_PATH: Final = 3 * 4096  #: characters of a path with each byte percent-encoded
_MAX_NAMED: Final = 1_000  #: entries that were left out, by name
_MAX_TEXT: Final = 10_000

Text = Annotated[str, Field(max_length=_MAX_TEXT)]
Count = Annotated[int, Field(ge=0, le=MAX_NUMBER)]


def _path(text: str) -> str:
    if b"\0" in unquote_to_bytes(text):
        raise ValueError("no path holds a NUL")
    return text


QuotedPath = Annotated[str, Field(min_length=1, max_length=_MAX_PATH), AfterValidator(_path)]


class _Known(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)


class _Capture(_Known):
    url: Annotated[str, Field(max_length=MAX_CHARACTERS)] | None = None
    canonical: Annotated[str, Field(max_length=MAX_CHARACTERS)] | None = None
    name: Text | None = None
    media_type: Text | None = None
    language: Text | None = None
    charset: Text | None = None
    converter: Text | None = None
    replaced_characters: Count | None = None
    fetched_at: Text | None = None


class _LeftOut(_Known):
    path: Annotated[str, Field(max_length=_MAX_PATH)]
    reason: Text


class _Skipped(_Known):
    count: Count = 0
    reasons: Annotated[dict[Text, Count], Field(max_length=100)] = Field(default_factory=dict)
    sample: Annotated[list[_LeftOut], Field(max_length=_MAX_NAMED)] = Field(default_factory=list)


class _Any(_Known):
    confined: bool | None = None


class _Stored(_Any):
    """What may lie in a folder or an archive."""

    path_bytes: QuotedPath | None = None
    archive: QuotedPath | None = None
    member: Annotated[str, Field(max_length=_MAX_PATH)] | None = None
    occurrence: Annotated[int, Field(ge=2, le=MAX_NUMBER)] | None = None
    size: Count | None = None
    stamp: Text | None = None

    @model_validator(mode="after")
    def _is_placed(self) -> "_Stored":
        if (self.archive is None) != (self.member is None):
            raise ValueError("archive and member belong together")
        return self


class _Container(_Stored):
    skipped: _Skipped | None = None


class _Directory(_Container):
    mount: bool | None = None
    include: Annotated[list[Pattern], Field(max_length=100)] | None = None
    exclude: Annotated[list[Pattern], Field(max_length=100)] | None = None

    @model_validator(mode="after")
    def _has_patterns(self) -> "_Directory":
        for name in ("include", "exclude"):
            try:
                require_patterns(name, getattr(self, name) or ())
            except InvalidInput as error:
                raise ValueError(str(error)) from None
        return self


class _Note(_Any):
    content: Annotated[str, Field(max_length=MAX_NOTE_CHARACTERS)]


class _Page(_Any):
    capture: _Capture | None = None
    title: Text | None = None
    size: Count | None = None
    stamp: Text | None = None


class _Sitemap(_Any):
    skipped: _Skipped | None = None


_KINDS: Final[dict[ItemType, type[_Any]]] = {
    ItemType.FILE: _Stored,
    ItemType.DIRECTORY: _Directory,
    ItemType.ARCHIVE: _Container,
    ItemType.NOTE: _Note,
    ItemType.URL: _Page,
    ItemType.SITEMAP: _Sitemap,
}


def data_of(
    type_: Literal["file", "note", "url", "directory", "archive", "sitemap"], said: dict[str, object]
) -> dict[str, object]:
    """What an item of this type keeps of what its bundle says.

    Raises:
        ValueError: a value is none that this version could have written; the message names its key.
    """
    try:
        known = _KINDS[ItemType(type_)].model_validate(said)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        place = ".".join(("data", *map(str, first["loc"])))
        raise ValueError(f"{place}: {first['msg'].removeprefix('Value error, ')}") from None
    return known.model_dump(exclude_none=True)
