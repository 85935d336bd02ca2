"""Secrets that nobody chose: made once, private, the same for all."""

import subprocess
import sys
from pathlib import Path

from config.secrets import kept_secret, mask_url, redact, write_private


def test_secret_is_made_once_and_private(tmp_path):
    """The first call makes the file, readable by its owner only; later calls return the same secret."""
    path = tmp_path / "keep" / "password"

    first = kept_secret(path)

    assert first == kept_secret(path)
    assert 20 <= len(first)
    assert (0o600, 0o700) == (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777)
    assert "a **** b" == redact(f"a {first} b")


def test_processes_that_start_together_agree_on_the_secret(tmp_path):
    """Of several first users one wins and the others take its secret."""
    program = (
        f"from pathlib import Path; from config.secrets import kept_secret; print(kept_secret(Path({str(tmp_path / 'p')!r})))"
    )
    root = Path(__file__).parents[3]

    users = [subprocess.Popen([sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    answers = {user.communicate(timeout=250)[0] for user in users}

    assert 1 == len(answers)
    assert [] == list(tmp_path.glob(".p.*"))


def test_writing_replaces_or_keeps(tmp_path):
    """By default the new text replaces the old; with replace=False the old one stays."""
    path = tmp_path / "file"
    write_private(path, "one")
    write_private(path, "two")
    write_private(path, "three", replace=False)

    assert "two" == path.read_text()
    assert [path] == list(tmp_path.iterdir())


def test_masking_a_url_keeps_all_but_the_password():
    """Scheme, user, host, port and path stay readable; text without a password is unchanged."""
    assert "amqps://me:****@h:5671/v?x=1" == mask_url("amqps://me:a%40b!@h:5671/v?x=1")
    assert "sqlite:////data/c.sqlite" == mask_url("sqlite:////data/c.sqlite")
