"""Providers are found by file name, imported only when asked for, and built from plain values."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from perdure.backends import embedders
from perdure.backends.embedders.base import Embedder
from perdure.backends.embedders.hashed import HashedEmbedder
from perdure.backends.extras import extra_line
from perdure.backends.registry import SECTIONS, build, load, missing_driver, providers
from perdure.backends.validation import config_error
from perdure.domain.errors import ConfigError, DependencyError


class CountingEmbedder(Embedder):
    """A provider that lives outside of perdure."""

    name = "counting"

    class Settings(BaseModel):
        model_config = ConfigDict(extra="forbid", frozen=True)
        dimensions: int = 2

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @property
    def dimension(self) -> int:
        return self.settings.dimensions

    async def embed_batch(self, texts: Any) -> Any:
        raise NotImplementedError


class WithoutSettings(CountingEmbedder):
    Settings = None  # type: ignore[assignment]  # what the test is about


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose modules can be imported as `perdure.backends.embedders.<name>`."""
    before = set(sys.modules)
    monkeypatch.setattr(embedders, "__path__", [*embedders.__path__, str(tmp_path)])
    monkeypatch.setattr("perdure.backends.registry.providers", lambda family: [p.stem for p in tmp_path.glob("*.py")])
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("perdure.backends.embedders."):
            del sys.modules[name]


def test_providers_are_the_files_of_the_folder() -> None:
    found = providers("embedders")
    assert {"hashed", "minilm"} <= set(found)
    assert found == sorted(found)
    assert "base" not in found
    assert not [name for name in found if name.startswith("_")]
    assert "migrations" not in providers("ledgers"), "a folder is no provider"


@pytest.mark.parametrize("family", SECTIONS)
def test_every_provider_of_every_family_has_the_parts_of_a_provider(family: str) -> None:
    for name in providers(family):
        try:
            provider = load(family, name)
        except DependencyError as error:
            assert extra_line(name) in str(error)
            continue
        assert provider.name == name
        assert provider.__doc__
        assert provider.Settings.model_config.get("extra") == "forbid", f"{name} takes unknown settings"
        assert provider.Settings.model_config.get("frozen") is True


def test_listing_imports_no_provider() -> None:
    code = """
        import sys
        from perdure.backends.registry import SECTIONS, providers
        names = {(family, name) for family in SECTIONS for name in providers(family)}
        loaded = [m for m in sys.modules for f, n in names if m == f"perdure.backends.{f}.{n}"]
        assert ("embedders", "minilm") in names and not loaded, loaded
        assert "onnxruntime" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_loading_imports_that_provider_alone_and_none_of_its_drivers() -> None:
    code = """
        import sys
        from perdure.backends.registry import load
        assert load("embedders", "minilm").name == "minilm"
        found = [m for m in sys.modules if m.startswith("perdure.backends.embedders.") and "._" not in m]
        assert sorted(found) == ["perdure.backends.embedders.base", "perdure.backends.embedders.minilm"], found
        heavy = {"onnx", "onnxruntime", "tokenizers", "safetensors", "perdure_minilm", "torch"} & set(sys.modules)
        assert not heavy, heavy
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_an_unknown_name_is_answered_with_the_nearest_and_all() -> None:
    with pytest.raises(ConfigError, match="did you mean 'minilm'") as caught:
        load("embedders", "mini-lm")
    assert "hashed" in str(caught.value)
    assert (caught.value.field, caught.value.value) == ("embedder.provider", "mini-lm")


def test_a_file_with_an_underscore_is_no_provider() -> None:
    with pytest.raises(ConfigError):
        load("embedders", "_minilm_graph")
    with pytest.raises(ConfigError):
        load("embedders", "base")


def test_an_unknown_family_is_an_error() -> None:
    with pytest.raises(ConfigError, match="did you mean 'embedders'"):
        providers("embedder")


@pytest.mark.covers("T40")
def test_a_provider_of_ones_own_is_named_by_its_import_path() -> None:
    built = build("embedders", f"{__name__}:CountingEmbedder", {"dimensions": 7})
    assert type(built) is CountingEmbedder
    assert built.dimension == 7


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("no_such_package.module:Class", "no module 'no_such_package'"),
        ("perdure.backends.nowhere:Class", "no module 'perdure.backends.nowhere'"),
        ("perdure.backends.embedders.hashed:HashEmbedder", "did you mean 'HashedEmbedder'"),
        ("json:JSONDecoder", "no subclass of perdure.backends.embedders.base.Embedder"),
        ("json:dumps", "no subclass"),
        (":Class", "no import path"),
        (".relative:Class", "no import path"),
        ("json:", "no import path"),
        ("C:\\models", "no import path"),
    ],
)
def test_a_wrong_import_path_says_what_is_wrong(path: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        load("embedders", path)


def test_a_custom_provider_whose_own_driver_is_missing_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_module.py").write_text("import a_driver_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(DependencyError, match="a_driver_that_is_not_there"):
        load("embedders", "their_module:Theirs")


def test_a_missing_driver_is_answered_with_the_pip_line(folder: Path) -> None:
    (folder / "faraway.py").write_text("import a_driver_that_is_not_there\n")
    with pytest.raises(DependencyError, match="a_driver_that_is_not_there") as caught:
        load("embedders", "faraway")
    assert extra_line("faraway") in str(caught.value)


def test_a_driver_that_is_broken_is_answered_with_the_pip_line(folder: Path) -> None:
    (folder / "broken.py").write_text("raise ImportError('libfoo.so: cannot open shared object file')\n")
    with pytest.raises(DependencyError, match=rf"libfoo\.so.*{re.escape(extra_line('broken'))}"):
        load("embedders", "broken")


def test_a_fault_of_perdures_own_is_not_blamed_on_a_driver(folder: Path) -> None:
    (folder / "faulty.py").write_text("from perdure.backends.embedders import nothing_of_this_name\n")
    with pytest.raises(ImportError) as caught:
        load("embedders", "faulty")
    assert not isinstance(caught.value, DependencyError)


def test_a_file_without_its_class_is_an_error(folder: Path) -> None:
    (folder / "hollow.py").write_text("from perdure.backends.embedders.hashed import HashedEmbedder\n")
    with pytest.raises(ConfigError, match="holds no Embedder named 'hollow'"):
        load("embedders", "hollow")


def test_missing_driver_keeps_an_error_that_is_one_already() -> None:
    error = DependencyError("as it is")
    assert missing_driver("anything", error) is error


# ---------------------------------------------------------------------------------------------------- settings
def test_build_hands_validated_settings_over() -> None:
    built = build("embedders", "hashed", {"dimensions": "16"})
    assert type(built) is HashedEmbedder
    assert built.dimension == 16


def test_a_wrong_value_names_key_and_value() -> None:
    with pytest.raises(ConfigError) as caught:
        build("embedders", "hashed", {"dimensions": -4})
    assert str(caught.value).startswith("embedder.config.dimensions: ")
    assert "-4" in str(caught.value)
    assert (caught.value.field, caught.value.value) == ("embedder.config.dimensions", -4)


def test_an_unknown_key_names_the_nearest_right_one() -> None:
    with pytest.raises(ConfigError, match=r"embedder\.config\.dimension is no setting, did you mean 'dimensions'\?"):
        build("embedders", "hashed", {"dimension": 4})
    with pytest.raises(ConfigError, match=r"there are dimensions"):
        build("embedders", "hashed", {"colour": "red"})


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ConfigError, match=r"embedder\.config\.threads.*embedder\.config\.cachedir") as caught:
        build("embedders", "minilm", {"threads": 0, "cachedir": "x"})
    assert "did you mean 'cache_dir'" in str(caught.value)


@pytest.mark.parametrize("config", [None, [], "text", 3])
def test_settings_that_are_no_table_are_refused(config: Any) -> None:
    with pytest.raises(ConfigError, match=r"embedder\.config must be a table"):
        build("embedders", "hashed", config)


def test_a_provider_without_settings_is_refused() -> None:
    with pytest.raises(ConfigError, match="no pydantic model named Settings"):
        build("embedders", f"{__name__}:WithoutSettings", {})


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    timeout: float = 1.0


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    url: int = 0
    api_key: SecretStr = SecretStr("")
    inner: Inner | None = None
    many: list[Inner] = Field(default_factory=list)
    needed: str


def _error(config: dict[str, Any]) -> ConfigError:
    try:
        Outer.model_validate(config)
    except ValueError as error:
        return config_error(error, Outer, "llm.config")  # type: ignore[arg-type]  # it is a ValidationError
    raise AssertionError("nothing was refused")


def test_nested_keys_are_named_whole_and_compared_with_their_own_model() -> None:
    assert "llm.config.inner.time_out is no setting, did you mean 'timeout'?" in str(
        _error({"needed": "x", "inner": {"time_out": 1}})
    )
    assert "llm.config.many.0.timeoutt is no setting, did you mean 'timeout'?" in str(
        _error({"needed": "x", "many": [{"timeoutt": 1}]})
    )


def test_a_missing_key_is_named_and_the_table_around_it_is_not_shown() -> None:
    error = _error({"api_key": "sk-very-secret"})
    assert str(error) == "llm.config.needed is required"
    assert error.value is None


def test_no_secret_reaches_the_error() -> None:
    error = _error({"needed": "x", "api_key": 12345})
    assert "12345" not in f"{error} {error.value!r}"
    error = _error({"needed": "x", "url": "postgresql://anna:hunter2@db/x"})
    assert "hunter2" not in f"{error} {error.value!r}"
    assert "***@db" in str(error)
    error = _error({"needed": "x", "inner": [{"token": "hush"}]})
    assert "hush" not in f"{error} {error.value!r}"


def test_long_values_are_cut() -> None:
    assert len(str(_error({"needed": "x", "url": "y" * 10_000}))) < 300
