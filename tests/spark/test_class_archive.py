"""The archive of Spark's classes: recorded by one JVM, used by the next."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from penstock.spark.class_archive import archive_options
from penstock.spark.interpreter import installed_spark
from penstock.spark.java import find_java_home

WHOLE = bytes.fromhex("a8ab0bf0") + b"and so on"


@pytest.fixture
def homes(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A Java with an archive of its own, a Spark, and a folder for ours."""
    java, spark = tmp_path / "java", tmp_path / "pyspark"
    for path in (java / "lib" / "server", spark / "jars"):
        path.mkdir(parents=True)
    (java / "lib" / "server" / "classes.jsa").touch()
    (java / "lib" / "modules").touch()
    return java, spark, tmp_path / "cache"


def path_in(options: str) -> Path:
    return Path(options.split()[0].partition("=")[2])


def test_the_first_session_records_and_the_next_one_uses(homes: tuple[Path, Path, Path]) -> None:
    recording = archive_options(*homes)
    assert recording.startswith("-XX:ArchiveClassesAtExit=")
    path_in(recording).write_bytes(WHOLE)
    using = archive_options(*homes)
    assert using.startswith("-XX:SharedArchiveFile=")
    assert path_in(using).read_bytes() == WHOLE
    assert archive_options(*homes) == using


def test_half_an_archive_is_not_used(homes: tuple[Path, Path, Path]) -> None:
    path_in(archive_options(*homes)).write_bytes(bytes(64))
    assert archive_options(*homes).startswith("-XX:ArchiveClassesAtExit=")


def test_another_java_records_its_own(homes: tuple[Path, Path, Path]) -> None:
    path_in(archive_options(*homes)).write_bytes(WHOLE)
    (homes[0] / "lib" / "modules").write_text("newer")
    assert archive_options(*homes).startswith("-XX:ArchiveClassesAtExit=")


def test_where_there_can_be_no_archive_java_is_told_nothing(homes: tuple[Path, Path, Path], tmp_path: Path) -> None:
    java, spark, cache = homes
    assert archive_options(java, spark, tmp_path / "two words") == ""
    (tmp_path / "file").touch()
    assert archive_options(java, spark, tmp_path / "file") == ""
    (java / "lib" / "server" / "classes.jsa").unlink()
    assert archive_options(java, spark, cache) == ""


@pytest.mark.spark
def test_java_finds_classes_of_spark_in_what_it_recorded(tmp_path: Path) -> None:
    java = find_java_home()
    spark = installed_spark()
    assert spark is not None
    jars = ":".join(map(str, sorted((spark / "jars").glob("spark-*.jar"))))
    for expected in ("ArchiveClassesAtExit", "SharedArchiveFile"):
        options = archive_options(java, spark, tmp_path)
        if not options:
            pytest.skip("this Java has no archive that ours could build on")
        assert expected in options
        command = [str(java / "bin" / "java"), *options.split(), "-Xlog:class+load", "-cp", jars]
        result = subprocess.run(
            [*command, "org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit", "--version"],
            env={"SPARK_HOME": str(spark), "JAVA_HOME": str(java), "SPARK_SCALA_VERSION": "2.13"},
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert result.returncode == 0, result.stdout[-1000:] + result.stderr[-1000:]
    loaded = [line for line in result.stdout.splitlines() if "org.apache.spark.launcher.Main " in line]
    assert "shared objects file" in loaded[0]
