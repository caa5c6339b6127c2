"""Finds models by entry point; one that breaks the contract is refused before it serves anybody."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from duplex_es.model import Model, ModelInfo

GROUP = "duplex_es.models"


class ModelUnknown(Exception):
    """No installed package offers a model of this name."""


class ContractBroken(Exception):
    """A plug-in does not offer what ``duplex_es.model.contract`` asks for."""


def offered() -> dict[str, EntryPoint]:
    """Every model that an installed package offers, by name."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def make_model(name: str, options: Mapping[str, str]) -> Model:
    """The model of this name, not loaded yet.

    Raises: ModelUnknown with the names there are, ContractBroken with what is missing, ImportError for a package the
    plug-in lacks, ValueError for an option it does not take.
    """
    found = offered().get(name)
    if found is None:
        raise ModelUnknown(f"There is no model {name!r}; installed are: {', '.join(sorted(offered())) or 'none'}.")
    try:
        factory = found.load()
    except AttributeError as error:
        raise ContractBroken(f"Model {name!r}: nothing is to be found at {found.value}.") from error
    if not callable(factory):
        raise ContractBroken(f"Model {name!r}: {found.value} is not a factory that takes the options.")
    model = factory(options)
    missing = [part for part in ("info", "load", "open", "unload") if not hasattr(model, part)]
    if missing or not isinstance(model.info, ModelInfo):
        raise ContractBroken(f"Model {name!r} lacks {', '.join(missing) or 'a ModelInfo in info'}.")
    return cast(Model, model)
