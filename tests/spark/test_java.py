"""Finding a Java for Spark, or providing one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from penstock.spark import java
from penstock.spark.java import SetupError, find_java_home, java_version, make_shim
from penstock.spark.session import settings_for


def fake_java(home: Path, version: str) -> Path:
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(
        f'#!/bin/sh\necho \'openjdk version "{version}" 2026-01-01\' >&2\nfor a in "$@"; do echo "[$a]"; done\n'
    )
    script.chmod(0o755)
    return script


def test_versions_are_read_in_both_spellings(tmp_path: Path) -> None:
    assert java_version(fake_java(tmp_path / "new", "21.0.2")) == 21
    assert java_version(fake_java(tmp_path / "old", "1.8.0_392")) == 8
    assert java_version(tmp_path / "none" / "java") is None


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    fake_java(tmp_path / "a", "17.0.1")
    fake_java(tmp_path / "b", "21.0.1")
    environment = {"JAVA_HOME": str(tmp_path / "a"), "PATH": f"{tmp_path / 'b' / 'bin'}:/bin"}
    assert find_java_home(environment) == tmp_path / "a"
    del environment["JAVA_HOME"]
    assert find_java_home(environment) == tmp_path / "b"


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    fake_java(tmp_path / "a", "11.0.1")
    fake_java(tmp_path / "b", "17.0.1")
    environment = {"JAVA_HOME": str(tmp_path / "a"), "PATH": f"{tmp_path / 'b' / 'bin'}:/bin"}
    assert find_java_home(environment) == tmp_path / "b"


def test_without_any_java_the_advice_says_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "a", "11.0.1")
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    with pytest.raises(SetupError, match=r"is Java 11.*pip install"):
        find_java_home({"JAVA_HOME": str(tmp_path / "a"), "PATH": ""})


def test_the_shim_drops_one_argument_and_keeps_the_rest(tmp_path: Path) -> None:
    real = fake_java(tmp_path / "real", "21.0.1")
    home = make_shim(real, tmp_path / "shim")
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b:c", "Main", ""]
    result = subprocess.run([str(home / "bin" / "java"), *arguments], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == ["[-Xmx1g]", "[-cp]", "[a b:c]", "[Main]", "[]"]
    assert java_version(make_shim(real, home) / "bin" / "java") == 21


def test_what_is_given_wins_over_our_settings() -> None:
    settings = settings_for("local[2]", True, {"spark.sql.session.timeZone": "Europe/Berlin", "spark.x": True})
    assert settings["spark.sql.session.timeZone"] == "Europe/Berlin"
    assert settings["spark.x"] == "true"
    assert settings["spark.ui.enabled"] == "true"
    assert "spark.sql.streaming.checkpointFileManagerClass" in settings
    assert "spark.sql.streaming.checkpointFileManagerClass" not in settings_for("spark://host:7077", False, {})


def test_a_second_garbage_collector_is_never_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAVA_TOOL_OPTIONS", "SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    options = "spark.driver.defaultJavaOptions"
    assert "GC" in settings_for("local[2]", False, {})[options]
    assert "GC" not in settings_for("spark://host:7077", False, {})[options]
    assert "GC" not in settings_for("local[2]", False, {"spark.driver.extraJavaOptions": "-XX:+UseG1GC"})[options]
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseG1GC")
    assert "GC" not in settings_for("local[2]", False, {})[options]
