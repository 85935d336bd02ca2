"""The declared embedders, opened by id. Every kind, ours included, comes through the entry points `knowledge.embedders`."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any, Final

from knowledge.errors import ConfigurationError, ModelNotFound
from knowledge.model.documents import EmbedderSpec
from knowledge.pipeline.indexing.embedder import Embedder
from knowledge.pipeline.indexing.per_process import PerProcess

GROUP: Final = "knowledge.embedders"


@dataclass(frozen=True)
class EmbedderKind:
    """What an entry point of the group `knowledge.embedders` names; its name there is the `kind` of a declaration."""

    open: Callable[[EmbedderSpec], Embedder]
    """Makes the embedder; cheap, reads no weights and opens no connection yet."""
    required: frozenset[str] = frozenset({"dimensions"})  #: fields of `EmbedderSpec` that a declaration must give
    defaults: Mapping[str, Any] = field(default_factory=dict)  #: fields it need not give, with this kind's values
    options: frozenset[str] = frozenset()  #: keys that `EmbedderSpec.options` may have
    widths: frozenset[int] = frozenset()  #: dimensions that it can give; empty means any
    needs: frozenset[str] = frozenset()  #: modules of an extra that must be installed before `open` is of use


class Embedders:
    """All declared embedders. Opened ones are kept for the life of the process."""

    def __init__(self, specs: Iterable[EmbedderSpec], kinds: Mapping[str, EmbedderKind] | None = None) -> None:
        """`kinds` takes the place of the installed ones (tests)."""
        self._specs = {spec.id: spec for spec in specs}
        self._kinds = kinds
        self._opened = {model_id: PerProcess(partial(self._open, spec)) for model_id, spec in self._specs.items()}

    def specs(self) -> list[EmbedderSpec]:
        """In the order of their declaration."""
        return list(self._specs.values())

    def spec(self, model_id: str) -> EmbedderSpec:
        """Raises `ModelNotFound` if nothing of this id is declared (any more)."""
        try:
            return self._specs[model_id]
        except KeyError:
            raise ModelNotFound(model=model_id, declared=sorted(self._specs)) from None

    def missing_packages(self, model_id: str) -> list[str]:
        """Modules that this embedder needs and this environment lacks; raises as `open`."""
        return sorted(module for module in self._kind(self.spec(model_id)).needs if find_spec(module) is None)

    def open(self, model_id: str) -> Embedder:
        """The embedder of this id, one per process.

        Raises:
            ModelNotFound: nothing of this id is declared.
            ConfigurationError: its kind is not installed, or does not accept the declaration.
        """
        self.spec(model_id)
        return self._opened[model_id].get()

    def _kind(self, spec: EmbedderSpec) -> EmbedderKind:
        kinds = installed_kinds() if self._kinds is None else self._kinds
        kind = kinds.get(spec.kind)
        if kind is None:
            raise unknown_kind(spec.kind, kinds)
        return kind

    def _open(self, spec: EmbedderSpec) -> Embedder:
        kind = self._kind(spec)
        if kind.widths and spec.dimensions not in kind.widths:
            raise ConfigurationError(
                f"Embedder {spec.id!r} declares {spec.dimensions} dimensions; kind {spec.kind!r} gives "
                f"{' or '.join(map(str, sorted(kind.widths)))}.",
                model=spec.id,
                field="dimensions",
            )
        return kind.open(spec)


@cache
def installed_kinds() -> Mapping[str, EmbedderKind]:
    """Every kind that this environment has.

    Raises:
        ConfigurationError: an entry point cannot be imported, or is no `EmbedderKind`; two packages claim one name.
    """
    found: dict[str, EmbedderKind] = {}
    for entry_point in entry_points(group=GROUP):
        try:
            kind = entry_point.load()
        except (ImportError, AttributeError) as error:
            raise ConfigurationError(
                f"Embedder kind {entry_point.name!r} ({entry_point.value}) cannot be imported: {error}.", kind=entry_point.name
            ) from error
        if not isinstance(kind, EmbedderKind):
            raise ConfigurationError(f"{entry_point.value} is no EmbedderKind.", kind=entry_point.name)
        if entry_point.name in found and found[entry_point.name] is not kind:
            raise ConfigurationError(f"Two packages provide an embedder kind {entry_point.name!r}.", kind=entry_point.name)
        found[entry_point.name] = kind
    return found


def unknown_kind(name: str, kinds: Iterable[str]) -> ConfigurationError:
    installed = ", ".join(sorted(kinds)) or "none (is the package installed, with its entry points?)"
    return ConfigurationError(f"There is no embedder kind {name!r}; installed: {installed}.", kind=name)
