"""Flower, behind a password, on the first free port from the configured one on: `python -m config.flower`.

The address it listens on is kept in `<data dir>/run/flower`. The password, if nobody chose one, is made and kept in
`<data dir>/flower.password`. It reaches Flower through the environment, never through the command line, where `ps` shows it.
"""

import os
import sys
from pathlib import Path
from typing import Final, NoReturn

from config.broker import is_free
from config.secrets import hide, kept_secret, write_private
from config.settings import Settings, load
from knowledge.errors import ConfigurationError, KnowledgeError

PORTS_TRIED: Final = 100
MOST_TASKS: Final = 10_000  #: kept in Flower's memory; its default of 100,000 grows past 500 MB


def password(settings: Settings) -> str:
    """The chosen password, or the one that was made for this data directory."""
    if settings.flower_password is not None:
        return hide(settings.flower_password.get_secret_value())
    return kept_secret(password_file(settings))


def password_file(settings: Settings) -> Path:
    return settings.data_dir / "flower.password"


def address(settings: Settings) -> str | None:
    """`http://host:port` of the Flower that was started last on this data directory; None if there never was one."""
    try:
        return address_file(settings).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None


def run(settings: Settings, app: str = "config.celery") -> NoReturn:
    """Become Flower for this Celery app.

    Raises:
        ConfigurationError: no port is free.
    """
    port = free_port(settings)
    host = f"[{settings.flower_host}]" if ":" in settings.flower_host else settings.flower_host
    write_private(address_file(settings), f"http://{host}:{port}\n")
    os.environ["FLOWER_BASIC_AUTH"] = f"{settings.flower_user}:{password(settings)}"
    options = [f"--address={settings.flower_host}", f"--port={port}", f"--max-tasks={MOST_TASKS}"]
    os.execv(sys.executable, [sys.executable, "-m", "celery", "-A", app, "flower", *options])  # noqa: S606 - no shell on purpose


def free_port(settings: Settings) -> int:
    first = settings.flower_port
    for port in range(first, min(first + PORTS_TRIED, 65_536)):
        if is_free(port, settings.flower_host):
            return port
    raise ConfigurationError(
        f"KNOWLEDGE_FLOWER_PORT = {first}: neither it nor the next {PORTS_TRIED} are free on {settings.flower_host}",
        setting="KNOWLEDGE_FLOWER_PORT",
    )


def address_file(settings: Settings) -> Path:
    return settings.run_dir / "flower"


def main() -> int:
    try:
        run(load(), *sys.argv[1:2])
    except KnowledgeError as error:
        print(f"flower: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
