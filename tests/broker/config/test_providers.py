"""Values that stand elsewhere (KIP-297)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.broker.config import ConfigError
from penstock.broker.config.providers import is_variable, resolve

CLASS = "org.apache.kafka.common.config.provider.{}ConfigProvider"
PROVIDERS = {
    "config.providers": "file,env, dir",
    "config.providers.file.class": CLASS.format("File"),
    "config.providers.env.class": CLASS.format("EnvVar"),
    "config.providers.dir.class": CLASS.format("Directory"),
}


def resolved(value: str, environment: dict[str, str] | None = None, **more: str) -> str:
    parameters = {
        f"config.providers.{name.replace('__', '.param.').replace('_', '.')}": text for name, text in more.items()
    }
    found = resolve({**PROVIDERS, **parameters, "x": value}, environment or {})
    assert set(found) == {"x"}
    return found["x"]


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    (tmp_path / "broker.properties").write_text("key.password=hush\nother = a=b\n")
    (tmp_path / "key.pem").write_text("-----BEGIN\nEND-----")
    return tmp_path


def test_variables_are_taken_from_files_folders_and_the_environment(secrets: Path) -> None:
    assert resolved(f"${{file:{secrets}/broker.properties:key.password}}") == "hush"
    assert resolved(f"${{dir:{secrets}:key.pem}}") == "-----BEGIN\nEND-----"
    assert resolved("${env:KEY}", {"KEY": "hush"}) == "hush"


def test_a_value_may_hold_several_and_text_around_them(secrets: Path) -> None:
    value = f'user="${{env:USER}}" password="${{file:{secrets}/broker.properties:other}}";'
    assert resolved(value, {"USER": "alice"}) == 'user="alice" password="a=b";'


def test_what_was_found_is_not_resolved_again() -> None:
    assert resolved("${env:A}", {"A": "${env:B}", "B": "x"}) == "${env:B}"


def test_without_providers_nothing_is_a_variable() -> None:
    assert resolve({"x": "${env:HOME}"}, {"HOME": "/"}) == {"x": "${env:HOME}"}


@pytest.mark.parametrize(
    "value",
    ["${env:TYPO}", "${env:some/path:KEY}", "${vault:a:b}", "${file:/not/there:x}", "${dir:/:../etc/passwd}"],
)
def test_what_cannot_be_resolved_stops_the_start(value: str) -> None:
    with pytest.raises(ConfigError, match=r"Cannot resolve .* in x: "):
        resolved(value)


def test_a_key_that_a_file_lacks_stops_the_start(secrets: Path) -> None:
    with pytest.raises(ConfigError, match="has no key 'nothing'"):
        resolved(f"${{file:{secrets}/broker.properties:nothing}}")


def test_files_can_be_limited_to_folders(secrets: Path, tmp_path: Path) -> None:
    inside = secrets / "in"
    inside.mkdir()
    (inside / "a.properties").write_text("k=v")
    (inside / "link.properties").symlink_to(secrets / "broker.properties")
    allowed: dict[str, Any] = {"file__allowed_paths": str(inside), "dir__allowed_paths": str(inside)}
    assert resolved(f"${{file:{inside}/a.properties:k}}", **allowed) == "v"
    for outside in (
        f"${{file:{secrets}/broker.properties:other}}",
        f"${{file:{inside}/../broker.properties:other}}",
        f"${{file:{inside}/link.properties:other}}",
        f"${{dir:{secrets}:key.pem}}",
    ):
        with pytest.raises(ConfigError, match=r"allowed\.paths"):
            resolved(outside, **allowed)


def test_variables_of_the_environment_can_be_limited_by_a_pattern() -> None:
    allowed = {"env__allowlist_pattern": "BROKER_.*"}
    assert resolved("${env:BROKER_KEY}", {"BROKER_KEY": "hush"}, **allowed) == "hush"
    with pytest.raises(ConfigError, match=r"allowlist\.pattern"):
        resolved("${env:HOME}", {"HOME": "/"}, **allowed)


def test_an_unknown_class_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match="FileConfigProvider"):
        resolve({"config.providers": "v", "config.providers.v.class": "com.example.Vault"}, {})


def test_a_message_about_a_secret_does_not_hold_it(secrets: Path) -> None:
    (secrets / "bad").write_bytes(b"hush\xff")
    with pytest.raises(ConfigError) as refused:
        resolved(f"${{dir:{secrets}:bad}}")
    assert "hush" not in str(refused.value)


def test_only_a_whole_variable_counts_as_one() -> None:
    assert is_variable("${file:/a:b}")
    assert not is_variable("prefix${file:/a:b}")
    assert not is_variable("secret")
