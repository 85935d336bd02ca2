"""The settings: one frozen value, read from the environment once, at start.

Each is `KNOWLEDGE_` and its name in capitals; a secret may also come from a file named by `…_FILE`. A name that is not known,
a value that cannot be, and a combination that would lose or double work are refused before anything starts. An empty value
counts as unset, but for the data directory: what was meant to be elsewhere would go to the default.
"""

import difflib
import hashlib
import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args
from urllib.parse import urlsplit

from platformdirs import user_data_path
from pydantic import Field, PrivateAttr, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from config.secrets import MASK, hide, hide_password_of, mask_url
from knowledge.errors import ConfigurationError
from knowledge.pipeline.conversion.tesseract import wrong_names
from knowledge.pipeline.http.address import AllowList

PREFIX: Final = "KNOWLEDGE_"
FILE_SUFFIX: Final = "_FILE"
READ_ELSEWHERE: Final = frozenset({"KNOWLEDGE_APP"})  #: names the factory of the runtime; read by `knowledge.interfaces`
BROKER_SCHEMES: Final = ("redis", "rediss", "redis+socket", "amqp", "amqps")
DATABASE_SCHEMES: Final = ("sqlite",)
WEB_SCHEMES: Final = ("http", "https")
JINA: Final = "jina"
OURS: Final = ("catalogue.sqlite", "embeddings.sqlite", "broker/endpoint.json", "run/logs")  #: what only a data directory holds
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
SWEEPS_PER_LEASE: Final = 2  #: a lease must outlive two sweeps, or a slow write looks like a dead worker

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class Settings(BaseSettings):
    """All settings with their defaults. Build it with `load`, or directly with keywords: then the environment is not read."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid", validate_default=True)

    data_dir: Path = Field(
        default_factory=lambda: user_data_path("knowledge"),
        description="Where the catalogue, the bases, the embedded broker and the state of `make up` live.",
    )
    database_url: SecretStr | None = Field(None, description="The catalogue; unset means catalogue.sqlite in the data dir.")
    broker_url: SecretStr | None = Field(None, description="A broker of your own; unset means the embedded one.")
    models_file: Path | None = Field(None, description="Declares embedders and their prices; unset means the shipped one.")

    import_roots: tuple[Path, ...] = Field(
        (),
        description="Folders below which broker clients may import, as a JSON list; the command line may anywhere.",
    )

    lease_seconds: Seconds = Field(60, description="How long a running job may be silent before another process takes it over.")
    sweep_seconds: Seconds = Field(15, description="Time between two searches for lost work.")
    tick_seconds: Seconds = Field(1, description="Time between two looks for jobs that have become due.")
    stall_seconds: Seconds = Field(600, description="A job stage without progress for this long fails.")
    settle_seconds: Seconds = Field(
        30, description="How long a job in the way of a delete or a replacement may take to stop before it is cut off."
    )
    republish_seconds: Seconds = Field(
        30, description="A job sent and not begun for this long, with nothing queued, is sent again."
    )
    drain_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        60, description="How long running jobs may go on after a worker was asked to stop."
    )
    lock_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        30, description="How long an operation waits for a base that another one is changing."
    )
    visibility_timeout_seconds: Annotated[int, Field(ge=1)] = Field(
        43_200, description="When a Redis broker delivers an unfinished message again; far above the longest job."
    )
    base_concurrency: Count = Field(5, description="How many jobs of one base may be in flight; keeps the others served.")
    worker_concurrency: Annotated[int, Field(ge=2)] = Field(2, description="Processes of the index worker; at least two.")
    control_concurrency: Annotated[int, Field(ge=2)] = Field(2, description="Processes of the control worker; at least two.")
    commands_concurrency: Annotated[int, Field(ge=2)] = Field(
        16, description="Threads that answer clients; a quarter is kept for questions that need not wait."
    )
    park_pending_on_start: Literal["always", "billed", "never"] = Field(
        "billed", description="Which jobs found waiting when the first worker starts are parked instead of run."
    )
    cache_max_bytes: Annotated[int, Field(ge=0)] = Field(
        1 << 30, description="Size of the cache of paid embeddings; what was paid for less than 7 days ago stays in any case."
    )

    reader_seconds: Seconds = Field(120, description="How long reading one file may take.")
    reader_memory_mib: Annotated[int, Field(ge=256)] = Field(
        1024, description="How much memory the process that reads a file may take, in MiB, with all that it starts."
    )
    reader_inflated_mib: Count = Field(256, description="What the archives in one file may unpack to, all together, in MiB.")
    reader_entries: Count = Field(
        20_000,
        description="How many parts the archives in one file may have, all together, where it is read as one document. "
        "A zip or tar that becomes a container has a fixed limit instead: 200,000.",
    )
    reader_pages: Count = Field(20_000, description="How many pages, slides or sheets one file may have.")
    reader_megapixels: Count = Field(
        200, description="Size of the largest picture or page that is drawn, in millions of pixels."
    )

    conversion_seconds: Seconds = Field(1800, description="How long the conversion of one item (OCR, docling) may take.")
    conversion_poll_seconds: Seconds = Field(5, description="Time between two looks at a conversion.")
    ocr_languages: str | None = Field(
        None, description="Languages of pictures and scans, like eng+deu; unset means those installed, if they are few."
    )
    ocr_processes: Count | None = Field(
        None,
        description="Files read by OCR at once on this host; unset means one for every two processors, two at least.",
    )
    docling_url: str | None = Field(None, description="A docling-serve, for bases that choose it: its address without a path.")
    docling_api_key: SecretStr | None = Field(None, description="Its key, if it wants one.")
    docling_billed: bool = Field(False, description="Whether its work costs money: what may have begun is not sent again.")

    http_allow: tuple[str, ...] = Field(
        (),
        description="Hosts, addresses and networks that pages may be fetched from though they are not public, as a JSON list; "
        "`host:port` and `[IPv6]:port` open one port only.",
    )
    http_proxy: SecretStr | None = Field(
        None, description="Proxy for fetching pages; it must refuse private addresses itself. Unset means none is used."
    )
    http_user_agent: Annotated[str, Field(min_length=1, pattern=r"^[\x20-\x7e]+$")] = Field(
        "Mozilla/5.0 (compatible; Knowledge)", description="What we call ourselves when we fetch pages."
    )
    http_seconds: Seconds = Field(60, description="How long fetching one page may take, redirects included.")
    http_max_mib: Count = Field(50, description="Size of the largest file that is fetched from an address, in MiB.")
    url_page_max_mib: Count = Field(5, description="Size of the largest HTML page that is taken, in MiB.")
    url_host_concurrency: Count = Field(3, description="How many pages of one host are fetched at once, by all workers.")
    url_host_per_minute: Count = Field(60, description="How many pages of one host are fetched in a minute, by all workers.")
    url_robots: Literal["children", "always", "never"] = Field(
        "children", description="When robots.txt is obeyed: for pages found in sitemaps and feeds, always, or never."
    )
    url_reader: str | None = Field(
        None, description="jina, or the address of a reader service like it, to fetch pages in our place; unset means none."
    )
    url_reader_key: SecretStr | None = Field(None, description="Key for the reader service; unset means anonymous use.")
    url_reader_concurrency: Count = Field(3, description="How many pages the reader service fetches for us at once.")
    url_reader_per_minute: Count = Field(10, description="How many pages the reader service is asked for in a minute.")
    sitemap_pages: Count = Field(1000, description="How many pages of one sitemap or feed are taken.")

    flower_host: str = Field("127.0.0.1", description="Address that Flower listens on.")
    flower_port: Annotated[int, Field(ge=1, le=65_535)] = Field(5555, description="Port of Flower; the next free one if taken.")
    flower_user: Annotated[str, Field(pattern=r"^[^:,\s]+$")] = Field("knowledge", description="User name for Flower.")
    flower_password: SecretStr | None = Field(None, description="Password for Flower; unset means one is made and kept.")

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="Least level that is logged.")
    log_format: Literal["text", "json"] = Field("text", description="Lines for people, or one JSON object a line.")

    _origins: dict[str, str] = PrivateAttr(default_factory=dict)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)  # the environment is read by `load` alone

    @field_validator("data_dir", "models_file")
    @classmethod
    def absolute(cls, path: Path | None) -> Path | None:
        """A relative path counts from the directory in which the process was started."""
        return path.expanduser().absolute() if path else path

    def model_post_init(self, context: Any, /) -> None:
        """Secrets given to a setting are hidden from the logs from here on."""
        super().model_post_init(context)
        for url in (self.broker_url, self.database_url, self.http_proxy):
            hide_password_of(url.get_secret_value() if url else "")
        for address in (self.docling_url, self.url_reader):
            with suppress(ValueError):  # `check` says what is wrong with it
                hide_password_of(address or "")
        hide(self.url_reader_key.get_secret_value() if self.url_reader_key else "")
        hide(self.flower_password.get_secret_value() if self.flower_password else "")
        hide(self.docling_api_key.get_secret_value() if self.docling_api_key else "")

    @property
    def database(self) -> str:
        """URL of the catalogue, the default filled in."""
        return self.database_url.get_secret_value() if self.database_url else f"sqlite:///{self.data_dir / 'catalogue.sqlite'}"

    @property
    def run_dir(self) -> Path:
        """Where running processes keep their state and logs."""
        return self.data_dir / "run"


class Origin(StrEnum):
    DEFAULT = "default"
    ENVIRONMENT = "environment"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """One setting as it counts now, fit to be shown: secrets are masked."""

    name: str
    variable: str
    value: str
    origin: str  #: `default`, `environment`, or `file <path>`
    description: str


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Read and check the settings, and make the data directory, closed to others.

    Args:
        environ: read instead of this process's environment.

    Raises:
        ConfigurationError: a name is unknown, a value or a combination is not possible; names the setting and the fix.
    """
    return _read(environ, makes=True)


def look(environ: Mapping[str, str] | None = None) -> Settings:
    """The same for who only looks: nothing is made, and a data directory that is there is left as it is."""
    return _read(environ, makes=False)


def _read(environ: Mapping[str, str] | None, *, makes: bool) -> Settings:
    names = {name: value for name, value in (os.environ if environ is None else environ).items() if name.startswith(PREFIX)}
    refuse_unknown(names)
    if names.get(variable("data_dir")) == "":
        name = variable("data_dir")
        raise ConfigurationError(f"{name} is empty; name a directory, or unset it for the default", setting=name)
    values, origins = read_files(names)
    source = EnvSettingsSource(Settings)
    source.env_vars = {name.lower(): value for name, value in names.items() if value}
    try:
        given = source()
    except SettingsError as error:  # a list that is no JSON; the error has the name in its text only
        found = re.search(r'field "(\w+)"', str(error))
        name = variable(found.group(1)) if found else PREFIX
        raise ConfigurationError(f'{name} must be a list in JSON, like ["one", "two"]', setting=name) from None
    try:
        settings = Settings(**given | values)
    except ValidationError as error:
        raise invalid(error, names) from None
    settings._origins.update(dict.fromkeys(given, Origin.ENVIRONMENT) | origins)
    check(settings, makes=makes)
    return settings


def effective(settings: Settings) -> tuple[EffectiveSetting, ...]:
    """Every setting as it counts, in the order of their declaration."""
    return tuple(
        EffectiveSetting(
            name=name,
            variable=variable(name),
            value=shown(settings, name),
            origin=settings._origins.get(name, Origin.DEFAULT),
            description=field.description or "",
        )
        for name, field in Settings.model_fields.items()
    )


def fingerprints(settings: Settings) -> dict[str, str]:
    """A digest of each setting as it is shown, by its variable: tells what differs without keeping a value.

    Secrets are shown masked, so of them only setting and unsetting is told: a digest of a password could be guessed at.
    """
    return {one.variable: hashlib.sha256(one.value.encode()).hexdigest() for one in effective(settings)}


def variable(name: str) -> str:
    return PREFIX + name.upper()


def secret_names() -> frozenset[str]:
    return frozenset(name for name, field in Settings.model_fields.items() if SecretStr in get_args(field.annotation))


def refuse_unknown(names: Mapping[str, str]) -> None:
    known = {variable(name) for name in Settings.model_fields} | {variable(name) + FILE_SUFFIX for name in secret_names()}
    for name in sorted(names):
        if name in known | READ_ELSEWHERE:
            continue
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "remove it; `knowledge config` lists the settings"
        raise ConfigurationError(f"{name} is not a setting; {hint}", setting=name)


def read_files(names: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Values that come from a `…_FILE`, and for each the word on where it came from."""
    values: dict[str, str] = {}
    origins: dict[str, str] = {}
    for name in sorted(secret_names()):
        path = names.get(variable(name) + FILE_SUFFIX)
        if not path:
            continue
        twin = variable(name) + FILE_SUFFIX
        if names.get(variable(name)):
            raise ConfigurationError(f"{variable(name)} and {twin} are both set; keep one", setting=twin)
        try:
            values[name] = Path(path).expanduser().read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{twin}: {path} cannot be read: {reason(error)}", setting=twin) from None
        if not values[name]:
            raise ConfigurationError(f"{twin}: {path} is empty; write the secret into it", setting=twin)
        origins[name] = f"{Origin.FILE} {path}"
    return values, origins


def invalid(error: ValidationError, names: Mapping[str, str]) -> ConfigurationError:
    first = error.errors(include_url=False, include_input=False)[0]
    name = str(first["loc"][0])
    given = "" if name in secret_names() else f" = {names.get(variable(name), '')!r}"
    return ConfigurationError(f"{variable(name)}{given}: {complaint(first)}", setting=variable(name))


def complaint(error: Mapping[str, Any]) -> str:
    """What a validator says, in the words of a person."""
    text = str(error["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    return text[:1].lower() + text[1:]


def check(settings: Settings, *, makes: bool = True) -> None:
    """Refuse what single values cannot show.

    Args:
        makes: the data directory, if it is not there, and what keeps others out of it.

    Raises:
        ConfigurationError: the first thing found.
    """
    for name, message in chain(impossible(settings), unusable(settings.data_dir, makes=makes)):
        raise ConfigurationError(f"{variable(name)} {message}", setting=variable(name))


def impossible(settings: Settings) -> Iterator[tuple[str, str]]:
    lease, sweep = settings.lease_seconds, settings.sweep_seconds
    if lease < SWEEPS_PER_LEASE * sweep:
        fix = f"set it to at least {SWEEPS_PER_LEASE * sweep:g} or lower KNOWLEDGE_SWEEP_SECONDS"
        yield "lease_seconds", f"= {lease:g} is shorter than two sweeps; {fix}"
    if settings.tick_seconds > sweep:
        yield "tick_seconds", f"= {settings.tick_seconds:g} is longer than KNOWLEDGE_SWEEP_SECONDS ({sweep:g}); lower it"
    if settings.visibility_timeout_seconds < lease:
        timeout = settings.visibility_timeout_seconds
        risk = f"is shorter than KNOWLEDGE_LEASE_SECONDS ({lease:g}): healthy jobs would be delivered twice"
        yield "visibility_timeout_seconds", f"= {timeout} {risk}; leave it unset"
    if settings.ocr_languages is not None and (wrong := wrong_names(settings.ocr_languages)):
        yield (
            "ocr_languages",
            f"= {settings.ocr_languages!r}: {', '.join(map(repr, wrong))} is no language; write eng or eng+deu",
        )
    if settings.flower_host not in LOOPBACK and settings.flower_password is None:
        yield "flower_host", f"= {settings.flower_host} can be reached from outside: set KNOWLEDGE_FLOWER_PASSWORD as well"
    if settings.flower_password is not None and "," in settings.flower_password.get_secret_value():
        yield "flower_password", "holds a comma, at which Flower would cut it; choose one without"
    yield from wrong_address("broker_url", settings.broker_url, BROKER_SCHEMES)
    yield from wrong_address("database_url", settings.database_url, DATABASE_SCHEMES)
    yield from wrong_address("http_proxy", settings.http_proxy, WEB_SCHEMES)
    try:
        AllowList.of(settings.http_allow)
    except ConfigurationError as error:
        yield "http_allow", f"cannot be used: {error}"
    if settings.docling_url is not None:
        yield from wrong_address("docling_url", SecretStr(settings.docling_url), WEB_SCHEMES)
    if settings.url_reader not in (None, JINA):
        yield from wrong_address("url_reader", SecretStr(settings.url_reader), WEB_SCHEMES)
    if settings.models_file is not None:
        try:
            settings.models_file.open("rb").close()
        except OSError as error:
            yield "models_file", f"= {settings.models_file} cannot be read: {reason(error)}"


def unusable(directory: Path, *, makes: bool) -> Iterator[tuple[str, str]]:
    """What is wrong with the data directory."""
    try:
        if not makes and not directory.exists():
            return
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        yield "data_dir", f"= {directory} cannot be made: {reason(error)}; name a directory that you may write to"
    else:
        yield from not_private(directory, closes=makes)
    if not os.access(directory, os.W_OK | os.X_OK):
        yield "data_dir", f"= {directory} is not writable; name a directory that you may write to"


def not_private(directory: Path, *, closes: bool) -> Iterator[tuple[str, str]]:
    """Keeps others out of the data directory; one that holds other things as well is left as it is, and refused."""
    if not directory.stat().st_mode & 0o077:
        return
    fix = f"others can read it; run: chmod 700 {shlex.quote(str(directory))}, or name a directory of its own"
    if any(directory.iterdir()) and not any((directory / name).exists() for name in OURS):
        yield "data_dir", f"= {directory} holds other things, and {fix}"
        return
    if not closes:
        return
    try:
        directory.chmod(0o700)
    except OSError:  # it is somebody else's
        yield "data_dir", f"= {directory}: {fix}"


def wrong_address(name: str, url: SecretStr | None, schemes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if url is None:
        return
    try:
        scheme = urlsplit(url.get_secret_value()).scheme
        _ = urlsplit(url.get_secret_value()).port
    except ValueError as error:
        yield name, f"is not an address: {mask_url(str(error))}"
        return
    known = ", ".join(f"{known}://" for known in schemes)
    if scheme.partition("+")[0] not in schemes and scheme not in schemes:
        yield name, f"must begin with one of {known}" + (f", not {scheme}://" if scheme else "")


def shown(settings: Settings, name: str) -> str:
    value = getattr(settings, name)
    if name == "database_url":
        return mask_url(settings.database)
    if value is None:
        return "unset"
    if isinstance(value, SecretStr):
        text = value.get_secret_value()
        return mask_url(text) if name.endswith("_url") and "://" in text else MASK
    if isinstance(value, tuple):
        return json.dumps([str(entry) for entry in value], ensure_ascii=False) if value else "none"
    return f"{value:g}" if isinstance(value, float) else mask_url(str(value))


def reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "it is not text in UTF-8"
