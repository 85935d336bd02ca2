"""The models file: what is accepted, what is refused, and how the refusal reads."""

import re

import pytest

from config import models
from config.secrets import redact
from knowledge.errors import ConfigurationError
from knowledge.pipeline.indexing.registry import Embedders

HTTP = """
[[embedder]]
id = "acme/embed"
kind = "openai"
endpoint = "https://models.example/v1"
model = "embed-1"
dimensions = 8
"""


@pytest.fixture
def load(tmp_path):
    def load(text, environ=None):
        file = tmp_path / "models.toml"
        file.write_text(text, encoding="utf-8")
        return models.load(file, {} if environ is None else environ)

    return load


def test_the_shipped_file_declares_the_local_default():
    """What a fresh checkout runs with."""
    found = models.load(environ={})

    assert "local/minilm" == found.default_embedder
    assert ["local/minilm", "local/hashing"] == [spec.id for spec in found.embedders]
    assert (384, False, ("en",)) == (found.embedders[0].dimensions, found.embedders[0].billed, found.embedders[0].languages)


def test_the_commented_examples_of_the_shipped_file_are_valid(load):
    """Taking the comment signs away is all that a user has to do."""
    shipped = models.SHIPPED.read_text(encoding="utf-8")
    start = shipped.index("# [[embedder]]")
    examples = "\n".join(re.findall(r"^# (\[\[embedder\]\]|[a-z_]+ = .*)$", shipped[start:], re.MULTILINE))
    found = load(examples, {"OPENAI_API_KEY": "sk-shipped-example"})

    assert ["local/wordllama", "openai/small", "ollama/nomic"] == [spec.id for spec in found.embedders]


def test_every_field_reaches_the_spec(load):
    """Nothing is dropped on the way."""
    found = load(
        HTTP
        + """
        revision = "2"
        api_key = "sk-direct-key"
        query_prefix = "q: "
        document_prefix = "d: "
        languages = ["en", "de"]
        max_input_tokens = 512
        max_batch_texts = 32
        max_batch_tokens = 9000
        timeout_seconds = 5
        price_per_million_tokens = 0.02
        billed = false
        options = { send_dimensions = true }
        """
    )
    spec = found.embedders[0]

    assert ("2", "sk-direct-key", "q: ", "d: ", ("en", "de")) == (
        spec.revision,
        spec.api_key,
        spec.query_prefix,
        spec.document_prefix,
        spec.languages,
    )
    assert (512, 32, 9000, 5.0, 0.02) == (
        spec.max_input_tokens,
        spec.max_batch_texts,
        spec.max_batch_tokens,
        spec.timeout_seconds,
        spec.price_per_million_tokens,
    )
    assert not spec.billed
    assert {"send_dimensions": True} == spec.options


def test_an_endpoint_is_billed_unless_it_says_otherwise(load):
    """Who forgets to say so must not pay twice."""
    assert load(HTTP).embedders[0].billed


def test_declared_embedders_can_be_opened(load):
    """From the file to an embedder."""
    found = load('[[embedder]]\nid = "h"\nkind = "hashing"\ndimensions = 12')

    assert (12,) == Embedders(found.embedders).open("h").embed_query("lamp").shape


def test_an_empty_file_declares_nothing(load):
    """Then every base searches by words alone."""
    assert (None, ()) == (load("").default_embedder, load("").embedders)


@pytest.mark.parametrize("written", ["env:ACME_KEY", "file:keys/acme"])
def test_keys_come_from_the_environment_or_a_file(load, tmp_path, written):
    """And are hidden from the logs from then on."""
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "acme").write_text("sk-from-elsewhere\n")
    found = load(f'{HTTP}api_key = "{written}"', {"ACME_KEY": "sk-from-elsewhere"})

    assert "sk-from-elsewhere" == found.embedders[0].api_key
    assert "sk-from-elsewhere" not in redact("key sk-from-elsewhere")


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("kind", '[[embedder]]\nid = "x"'),
        ("kind", '[[embedder]]\nid = "x"\nkind = "acme"'),
        ("id", '[[embedder]]\nkind = "hashing"'),
        ("id", '[[embedder]]\nkind = "hashing"\nid = ""'),
        ("id", '[[embedder]]\nkind = "hashing"\nid = "a\\nb"'),
        ("id", HTTP + HTTP),
        ("endpoint", HTTP.replace("https://models.example/v1", "")),
        ("endpoint", HTTP.replace("https://models.example/v1", "models.example")),
        ("endpoint", HTTP.replace("https://models.example/v1", "https://me:sk-secret@models.example")),
        ("endpoint", HTTP.replace("models.example", "models.example:port")),
        ("model", HTTP.replace('model = "embed-1"', "")),
        ("dimensions", HTTP.replace("dimensions = 8", "")),
        ("dimensions", HTTP.replace("dimensions = 8", "dimensions = 0")),
        ("dimensions", HTTP.replace("dimensions = 8", 'dimensions = "8"')),
        ("dimensions", '[[embedder]]\nid = "x"\nkind = "minilm"\ndimensions = 385'),
        ("max_batch_texts", HTTP + "max_batch_texts = -1"),
        ("max_batch_tokens", HTTP + "max_batch_tokens = 1.5"),
        ("timeout_seconds", HTTP + "timeout_seconds = inf"),
        ("price_per_million_tokens", HTTP + "price_per_million_tokens = -0.1"),
        ("billed", HTTP + 'billed = "no"'),
        ("languages.0", HTTP + 'languages = ["English"]'),
        ("temperature", HTTP + "temperature = 1"),
        ("options.threads", HTTP + "options = { threads = 2 }"),
        ("api_key", HTTP + 'api_key = "env:NOT_SET"'),
        ("api_key", HTTP + 'api_key = "file:not/there"'),
        ("api_key", HTTP + 'api_key = "sk-secret with a space"'),
        ("default_embedder", 'default_embedder = "x"'),
        ("reranker", "[[reranker]]"),
        ("embedder.0", "embedder = [1]"),
    ],
)
def test_what_is_wrong_is_named(load, tmp_path, field, text):
    """File, entry and field; never a value that could be a secret."""
    with pytest.raises(ConfigurationError) as caught:
        load(text)

    assert field == caught.value.details["field"]
    assert str(tmp_path / "models.toml") == caught.value.details["file"]
    assert str(tmp_path / "models.toml") in str(caught.value)
    assert field in str(caught.value)
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize("content", [b"[[embedder]\n", b"\xff\xfe"])
def test_what_is_no_toml_is_refused(tmp_path, content):
    """With the name of the file."""
    (tmp_path / "models.toml").write_bytes(content)

    with pytest.raises(ConfigurationError, match=r"models\.toml: this is no TOML"):
        models.load(tmp_path / "models.toml", {})


def test_a_file_that_is_not_there_is_refused(tmp_path):
    """With the name of the file."""
    with pytest.raises(ConfigurationError, match=r"absent\.toml: the models file cannot be read"):
        models.load(tmp_path / "absent.toml", {})
