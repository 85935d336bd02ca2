"""Settings: where values come from, what is refused, what is shown."""

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from config.settings import READ_ELSEWHERE, Settings, effective, fingerprints, load, variable
from knowledge.errors import ConfigurationError


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"KNOWLEDGE_DATA_DIR": str(tmp_path / "data")}


def refusal(environ: dict[str, str]) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        load(environ)
    return caught.value


def test_defaults_hold_where_nothing_is_set(environ, tmp_path):
    """With nothing but a data directory the documented defaults count, and the directory is private."""
    settings = load(environ)

    assert (60, 15, 1, 600, 60, 30) == (
        settings.lease_seconds,
        settings.sweep_seconds,
        settings.tick_seconds,
        settings.stall_seconds,
        settings.drain_seconds,
        settings.lock_seconds,
    )
    assert f"sqlite:///{tmp_path}/data/catalogue.sqlite" == settings.database
    assert 0o700 == (tmp_path / "data").stat().st_mode & 0o777


def test_data_directory_is_the_users_own_by_default():
    """Unset, the data directory is the platform's place for a user's data."""
    assert "knowledge" == Settings().data_dir.name


def test_variables_override_defaults(environ):
    """A variable counts, fractions of seconds included; an empty one counts as unset."""
    settings = load(environ | {"KNOWLEDGE_LEASE_SECONDS": "2.5", "KNOWLEDGE_SWEEP_SECONDS": "1", "KNOWLEDGE_LOG_LEVEL": ""})

    assert (2.5, "INFO") == (settings.lease_seconds, settings.log_level)


def test_settings_built_directly_ignore_the_environment(monkeypatch):
    """Only `load` reads the environment."""
    monkeypatch.setenv("KNOWLEDGE_LEASE_SECONDS", "7")

    assert 60 == Settings().lease_seconds


def test_settings_are_frozen(environ):
    """Nothing changes a setting after start."""
    settings = load(environ)

    with pytest.raises(ValidationError):
        settings.lease_seconds = 1


def test_relative_data_directory_counts_from_the_start_directory(monkeypatch, tmp_path):
    """A relative path becomes absolute when it is read, so a later change of directory does not move the data."""
    monkeypatch.chdir(tmp_path)

    assert tmp_path / "here" == load({"KNOWLEDGE_DATA_DIR": "here"}).data_dir


def test_secret_comes_from_its_file(environ, tmp_path):
    """`…_FILE` names a file whose content, trimmed, is the secret."""
    (tmp_path / "url").write_text("redis://:hunter22@broker:6379/0\n")

    settings = load(environ | {"KNOWLEDGE_BROKER_URL_FILE": str(tmp_path / "url")})

    assert SecretStr("redis://:hunter22@broker:6379/0") == settings.broker_url


def test_foreign_variables_are_not_read(environ):
    """Other programs' variables, and the one read elsewhere, are no business of ours."""
    assert load(environ | {"PATH": "/bin", "LEASE_SECONDS": "x"} | dict.fromkeys(READ_ELSEWHERE, "somewhere:else"))


@pytest.mark.parametrize(
    ("given", "setting", "says"),
    [
        ({"KNOWLEDGE_LEASE_SECOND": "60"}, "KNOWLEDGE_LEASE_SECOND", "did you mean KNOWLEDGE_LEASE_SECONDS?"),
        ({"KNOWLEDGE_BROKER_URL_FIL": "x"}, "KNOWLEDGE_BROKER_URL_FIL", "did you mean KNOWLEDGE_BROKER_URL_FILE?"),
        ({"KNOWLEDGE_XYZ": "1"}, "KNOWLEDGE_XYZ", "is not a setting"),
        ({"KNOWLEDGE_LEASE_SECONDS_FILE": "x"}, "KNOWLEDGE_LEASE_SECONDS_FILE", "is not a setting"),
        ({"KNOWLEDGE_LEASE_SECONDS": "-1"}, "KNOWLEDGE_LEASE_SECONDS", "greater than 0"),
        ({"KNOWLEDGE_LEASE_SECONDS": "inf"}, "KNOWLEDGE_LEASE_SECONDS", "finite"),
        ({"KNOWLEDGE_LEASE_SECONDS": "soon"}, "KNOWLEDGE_LEASE_SECONDS", "'soon'"),
        ({"KNOWLEDGE_WORKER_CONCURRENCY": "1"}, "KNOWLEDGE_WORKER_CONCURRENCY", "greater than or equal to 2"),
        ({"KNOWLEDGE_LOG_FORMAT": "xml"}, "KNOWLEDGE_LOG_FORMAT", "'text' or 'json'"),
        ({"KNOWLEDGE_FLOWER_PORT": "70000"}, "KNOWLEDGE_FLOWER_PORT", "65535"),
        ({"KNOWLEDGE_LEASE_SECONDS": "20"}, "KNOWLEDGE_LEASE_SECONDS", "set it to at least 30"),
        ({"KNOWLEDGE_TICK_SECONDS": "16"}, "KNOWLEDGE_TICK_SECONDS", "longer than KNOWLEDGE_SWEEP_SECONDS"),
        ({"KNOWLEDGE_VISIBILITY_TIMEOUT_SECONDS": "59"}, "KNOWLEDGE_VISIBILITY_TIMEOUT_SECONDS", "delivered twice"),
        ({"KNOWLEDGE_FLOWER_HOST": "0.0.0.0"}, "KNOWLEDGE_FLOWER_HOST", "set KNOWLEDGE_FLOWER_PASSWORD"),
        ({"KNOWLEDGE_FLOWER_PASSWORD": "a,b,c"}, "KNOWLEDGE_FLOWER_PASSWORD", "comma"),
        ({"KNOWLEDGE_BROKER_URL": "broker:6379"}, "KNOWLEDGE_BROKER_URL", "must begin with one of redis://"),
        ({"KNOWLEDGE_BROKER_URL": "redis://broker:port/0"}, "KNOWLEDGE_BROKER_URL", "is not an address"),
        ({"KNOWLEDGE_DATABASE_URL": "mysql://db/x"}, "KNOWLEDGE_DATABASE_URL", "must begin with one of sqlite://"),
        ({"KNOWLEDGE_MODELS_FILE": "/nowhere/models.toml"}, "KNOWLEDGE_MODELS_FILE", "No such file"),
        ({"KNOWLEDGE_DATA_DIR": "/proc/knowledge"}, "KNOWLEDGE_DATA_DIR", "cannot be made"),
        ({"KNOWLEDGE_BROKER_URL_FILE": "/nowhere/url"}, "KNOWLEDGE_BROKER_URL_FILE", "No such file"),
    ],
)
def test_what_cannot_be_is_refused_with_the_name_and_the_fix(environ, given, setting, says):
    """Each refusal names the variable and says what is wrong or what to do."""
    error = refusal(environ | given)

    assert setting == error.details["setting"]
    assert setting in str(error)
    assert says in str(error)


def test_data_directory_that_is_a_file_is_refused(tmp_path):
    """A file where the data directory should be is found at start, not at the first write."""
    (tmp_path / "file").touch()

    assert "cannot be made" in str(refusal({"KNOWLEDGE_DATA_DIR": str(tmp_path / "file")}))


def test_variable_and_file_together_are_refused(environ, tmp_path):
    """Of two sources for one secret neither wins silently."""
    both = {"KNOWLEDGE_BROKER_URL": "redis://a", "KNOWLEDGE_BROKER_URL_FILE": str(tmp_path / "url")}

    assert "keep one" in str(refusal(environ | both))


def test_refusal_never_shows_a_secret(environ):
    """The password of a refused URL is not in the message."""
    refused = (
        refusal(environ | {"KNOWLEDGE_BROKER_URL": "http://me:hunter22@broker"}),
        refusal(environ | {"KNOWLEDGE_BROKER_URL": "redis://me:hunter22@broker:port"}),
    )

    assert [False, False] == ["hunter22" in str(error) for error in refused]


def test_effective_settings_are_all_shown_with_their_origin_and_without_secrets(environ, tmp_path):
    """Every setting appears once, described, with where it came from; secrets and passwords inside URLs are masked."""
    (tmp_path / "password").write_text("correct horse")
    environ |= {"KNOWLEDGE_BROKER_URL": "redis://me:hunter22@broker:6379/0", "KNOWLEDGE_LEASE_SECONDS": "90"}
    environ |= {"KNOWLEDGE_FLOWER_PASSWORD_FILE": str(tmp_path / "password")}

    shown = {setting.name: setting for setting in effective(load(environ))}

    assert list(Settings.model_fields) == list(shown)
    assert all(setting.description and variable(setting.name) == setting.variable for setting in shown.values())
    assert ("redis://me:****@broker:6379/0", "environment") == (shown["broker_url"].value, shown["broker_url"].origin)
    assert ("90", "environment") == (shown["lease_seconds"].value, shown["lease_seconds"].origin)
    assert ("****", f"file {tmp_path}/password") == (shown["flower_password"].value, shown["flower_password"].origin)
    assert ("15", "default") == (shown["sweep_seconds"].value, shown["sweep_seconds"].origin)
    assert "hunter22" not in repr(load(environ))


def test_a_data_directory_that_others_can_read_is_closed(tmp_path):
    """Made by hand, or by an older hand: it is the owner's alone once something has started on it."""
    for name, inside in (("empty", None), ("used", "catalogue.sqlite")):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o755)
        if inside:
            (tmp_path / name / inside).touch()
        load({"KNOWLEDGE_DATA_DIR": str(tmp_path / name)})

    assert [0o700, 0o700] == [(tmp_path / name).stat().st_mode & 0o777 for name in ("empty", "used")]


def test_a_folder_of_other_things_is_no_data_directory_and_keeps_its_mode(tmp_path):
    """Somebody's home or /tmp must not be closed to others by a wrong setting."""
    (tmp_path / "home" / "letters").mkdir(parents=True)
    (tmp_path / "home").chmod(0o755)

    assert "chmod 700" in str(refusal({"KNOWLEDGE_DATA_DIR": str(tmp_path / "home")}))
    assert 0o755 == (tmp_path / "home").stat().st_mode & 0o777


def test_an_empty_data_directory_is_refused():
    """A variable that a script failed to fill must not lead to the default library."""
    assert "is empty" in str(refusal({"KNOWLEDGE_DATA_DIR": ""}))


@pytest.mark.parametrize(
    "given", [{"KNOWLEDGE_LEASE_SECONDS": "-1"}, {"KNOWLEDGE_LOG_FORMAT": "xml"}, {"KNOWLEDGE_FLOWER_PORT": "x"}]
)
def test_refusals_do_not_speak_python(environ, given):
    """No word of the validator's own."""
    said = str(refusal(environ | given))

    assert [] == [word for word in ("Value error", "Input ", "None", "[", "(") if word in said]


def test_a_list_is_shown_as_it_is_written(environ):
    """As JSON, or as a word if it is empty."""
    folders = environ | {"KNOWLEDGE_IMPORT_ROOTS": '["/srv/a"]'}
    shown = [{setting.name: setting.value for setting in effective(load(given))} for given in (environ, folders)]

    assert ["none", '["/srv/a"]'] == [each["import_roots"] for each in shown]


def test_fingerprints_tell_what_differs_and_no_secret(environ):
    """Two readings of the same settings agree; a changed one differs under its own name, a password never does."""
    before = fingerprints(load(environ))
    changed = fingerprints(load(environ | {"KNOWLEDGE_LEASE_SECONDS": "90", "KNOWLEDGE_FLOWER_PASSWORD": "one"}))
    other = fingerprints(load(environ | {"KNOWLEDGE_LEASE_SECONDS": "90", "KNOWLEDGE_FLOWER_PASSWORD": "two"}))

    assert before == fingerprints(load(environ))
    assert {"KNOWLEDGE_LEASE_SECONDS", "KNOWLEDGE_FLOWER_PASSWORD"} == {
        name for name in before if before[name] != changed[name]
    }
    assert changed == other
