"""Models are found by entry point; one that breaks the contract serves nobody."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest

from workers import plugins
from workers.models.echo import EchoModel
from workers.plugins import GROUP, ContractBroken, ModelUnknown, make_model, offered

pytestmark = pytest.mark.unit

NOT_A_FACTORY = 7


class Cardless:
    """Everything but a card of the right kind."""

    info = "echo"

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options

    async def load(self) -> None: ...

    async def open(self) -> None: ...

    async def unload(self) -> None: ...


def half_done(options: Mapping[str, str]) -> SimpleNamespace:
    """A model that can neither load nor unload."""
    return SimpleNamespace(info=EchoModel({}).info, open=None)


def offer(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """Pretend that an installed package offers ``value``."""
    entry = EntryPoint(name=name, value=value, group=GROUP)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [entry] if group == GROUP else [])


def test_the_built_in_models_are_offered_like_any_others() -> None:
    assert {"cascade", "echo", "scripted"} <= set(offered())


@pytest.mark.parametrize("name", ["echo", "scripted"])
def test_a_model_is_made_with_its_options_and_not_loaded_yet(name: str) -> None:
    model = make_model(name, {"lead_ms": "none"})
    assert model.info.name == name


def test_an_unknown_model_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ModelUnknown, match=r"no model 'ecko'; installed are: .*echo"):
        make_model("ecko", {})


def test_with_nothing_installed_the_refusal_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "entry_points", lambda group: [])
    with pytest.raises(ModelUnknown, match="installed are: none"):
        make_model("echo", {})


def test_an_option_that_the_model_does_not_have_is_refused_by_its_name() -> None:
    with pytest.raises(ValueError, match="loudness"):
        make_model("echo", {"loudness": "11"})


@pytest.mark.parametrize(
    ("attribute", "complaint"),
    [
        ("half_done", "lacks load, unload"),
        ("Cardless", "a ModelInfo in info"),
        ("NOT_A_FACTORY", "not a factory"),
        ("nowhere", "nothing is to be found"),
    ],
)
def test_a_plug_in_that_breaks_the_contract_is_refused_with_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, attribute: str, complaint: str
) -> None:
    offer(monkeypatch, "mine", f"{__name__}:{attribute}")
    with pytest.raises(ContractBroken, match=complaint):
        make_model("mine", {})


def test_a_plug_in_whose_package_is_missing_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "mine", "no_such_package_anywhere:PLUGIN")
    with pytest.raises(ImportError, match="no_such_package_anywhere"):
        make_model("mine", {})
