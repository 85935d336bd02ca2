"""The declared models: `models.toml`, read and checked. Nothing is guessed, nothing unknown passes."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

from config.secrets import hide
from config.settings import complaint
from knowledge.errors import ConfigurationError
from knowledge.model.documents import EmbedderSpec
from knowledge.pipeline.indexing.registry import EmbedderKind, installed_kinds, unknown_kind

SHIPPED: Final = Path(__file__).with_name("models.toml")

Count = Annotated[int, Field(ge=1, strict=True)]
Name = Annotated[str, StringConstraints(pattern=r"^\S(.{0,198}\S)?$")]


@dataclass(frozen=True, slots=True)
class Models:
    """What one models file declares."""

    file: Path
    default_embedder: str | None  #: for bases created without a word about it; None makes them lexical-only
    embedders: tuple[EmbedderSpec, ...]


class EmbedderEntry(BaseModel):
    """One `[[embedder]]` of the file."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)

    id: Name
    kind: Name
    dimensions: Annotated[int, Field(ge=1, le=65_536)]
    model: str = ""
    revision: str = ""
    endpoint: str = ""
    api_key: str = ""
    query_prefix: str = ""
    document_prefix: str = ""
    languages: tuple[Annotated[str, StringConstraints(pattern=r"^[a-z]{2}$")], ...] = Field((), strict=False)
    max_input_tokens: Count = 8191
    max_batch_texts: Count = 10
    max_batch_tokens: Count = 100_000
    timeout_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60.0
    price_per_million_tokens: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    billed: bool = False
    options: dict[str, str | int | float | bool] = Field(default_factory=dict)

    @field_validator("endpoint")
    @classmethod
    def is_an_address(cls, endpoint: str) -> str:
        if not endpoint:
            return endpoint
        try:
            parts = urlsplit(endpoint)
            usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 0) >= 0
        except ValueError:
            usable = False
        if not usable:
            raise ValueError("must be an address that begins with http:// or https://")
        if parts.username or parts.password:
            raise ValueError("must not hold a user name or password; use api_key")
        return endpoint


class ModelsFile(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    default_embedder: Name | None = None
    embedder: list[dict[str, Any]] = Field(default_factory=list)


def load(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Models:
    """Read a models file.

    Args:
        path: the file; None means the shipped one beside this module.
        environ: read instead of this process's environment, for keys given as `env:NAME`.

    Raises:
        ConfigurationError: the file cannot be read or an entry is not valid; the message and the details name the file, the
            entry and the field, and never show a value.
    """
    path = SHIPPED if path is None else path
    try:
        content = ModelsFile.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigurationError(f"{path}: the models file cannot be read: {error.strerror}.", file=str(path)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: this is no TOML: {error}.", file=str(path)) from error
    except ValidationError as error:
        raise _invalid(path, None, error) from None
    kinds = installed_kinds()
    secrets = _Secrets(path, os.environ if environ is None else environ)
    specs: dict[str, EmbedderSpec] = {}
    for number, entry in enumerate(content.embedder, start=1):
        spec = _spec(path, number, entry, kinds, secrets)
        if spec.id in specs:
            raise _refused(path, spec.id, "id", "is declared twice")
        specs[spec.id] = spec
    default = content.default_embedder
    if default is not None and default not in specs:
        raise ConfigurationError(
            f"{path}: default_embedder: {default!r} is not declared.", file=str(path), entry=None, field="default_embedder"
        )
    return Models(path, default, tuple(specs.values()))


def _spec(
    path: Path, number: int, given: Mapping[str, Any], kinds: Mapping[str, EmbedderKind], secrets: "_Secrets"
) -> EmbedderSpec:
    label = given["id"] if isinstance(given.get("id"), str) else f"number {number}"
    name = given.get("kind")
    if not isinstance(name, str):
        raise _refused(path, label, "kind", "is missing")
    kind = kinds.get(name)
    if kind is None:
        raise _refused(path, label, "kind", str(unknown_kind(name, kinds)))
    for field in sorted(kind.required):
        if given.get(field) in (None, ""):
            raise _refused(path, label, field, f"is needed by kind {name!r}")
    try:
        entry = EmbedderEntry.model_validate({**kind.defaults, **given})
    except ValidationError as error:
        raise _invalid(path, label, error) from None
    if kind.widths and entry.dimensions not in kind.widths:
        widths = " or ".join(map(str, sorted(kind.widths)))
        raise _refused(path, label, "dimensions", f"must be {widths} for kind {name!r}")
    unknown = sorted(set(entry.options) - kind.options)
    if unknown:
        raise _refused(path, label, f"options.{unknown[0]}", f"is no option of kind {name!r}")
    return EmbedderSpec(**{**entry.model_dump(), "api_key": secrets.resolve(label, entry.api_key)})


class _Secrets:
    """Finds keys where an entry points: in the environment or in a file."""

    def __init__(self, path: Path, environ: Mapping[str, str]) -> None:
        self._path = path
        self._environ = environ

    def resolve(self, label: str, written: str) -> str:
        key = self._found(label, written)
        if not all("!" <= char <= "~" for char in key):
            raise _refused(
                self._path, label, "api_key", "holds a space, a line break or a character that no HTTP header may have"
            )
        hide(key)
        return key

    def _found(self, label: str, written: str) -> str:
        scheme, colon, place = written.partition(":")
        if not colon or scheme not in {"env", "file"}:
            return written
        if scheme == "env":
            key = self._environ.get(place, "")
            if not key:
                raise _refused(self._path, label, "api_key", f"the environment variable {place} is not set")
            return key
        file = self._path.parent / Path(place).expanduser()
        try:
            key = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise _refused(self._path, label, "api_key", f"the file {file} cannot be read") from error
        if not key:
            raise _refused(self._path, label, "api_key", f"the file {file} is empty")
        return key


def _refused(path: Path, entry: str, field: str, problem: str) -> ConfigurationError:
    return ConfigurationError(f"{path}: embedder {entry!r}: {field}: {problem}", file=str(path), entry=entry, field=field)


def _invalid(path: Path, entry: str | None, error: ValidationError) -> ConfigurationError:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join(map(str, first["loc"]))
    problem = "is no known key" if first["type"] == "extra_forbidden" else complaint(first)
    if entry is not None:
        return _refused(path, entry, field, problem)
    return ConfigurationError(f"{path}: {field}: {problem}", file=str(path), entry=None, field=field)
