"""The script that stands in for the interpreter of Spark's workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark

from penstock.spark.interpreter import choose_interpreter, is_shim, make_shim

ASK = "import json, os, sys; print(json.dumps([os.environ.get('PYTHONPATH'), sys.argv[1:], sys.executable]))"


def answer_of(script: Path, python_path: str, *arguments: str) -> tuple[str, list[str], str]:
    environment = {**os.environ, "PYTHONPATH": python_path}
    result = subprocess.run(
        [script, "-c", ASK, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    path, given, executable = json.loads(result.stdout)
    return path, given, executable


def test_only_the_zips_of_spark_leave_the_module_path(tmp_path: Path) -> None:
    spark = tmp_path / "site packages" / "pyspark"
    script = make_shim(sys.executable, spark, tmp_path / "cache")
    zips = f"{spark}/python/lib/pyspark.zip:{spark}/python/lib/py4j-src.zip:{spark}/jars/spark-core.jar"
    path, given, executable = answer_of(script, f"{zips}:/my/own code:/my/*", "two words", "*")
    assert path == "/my/own code:/my/*"
    assert given == ["two words", "*"]
    assert executable == sys.executable


def test_a_script_is_made_once_and_environments_do_not_share_it(tmp_path: Path) -> None:
    one = make_shim(sys.executable, tmp_path / "pyspark", tmp_path)
    made = one.stat().st_ino
    assert make_shim(sys.executable, tmp_path / "pyspark", tmp_path) == one
    assert one.stat().st_ino == made
    assert make_shim("/another/python", tmp_path / "pyspark", tmp_path) != one


def test_a_local_session_gets_the_script_and_a_cluster_does_not(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    local = choose_interpreter(environment, local=True)
    assert is_shim(local, environment)
    assert choose_interpreter(environment, local=False) == sys.executable
    assert not is_shim(sys.executable, environment)


def test_pyspark_is_the_installed_one_with_the_script_and_the_zip_without(tmp_path: Path) -> None:
    installed = Path(pyspark.__file__).parent
    script = choose_interpreter({"XDG_CACHE_HOME": str(tmp_path)}, local=True)
    environment = {**os.environ, "PYTHONPATH": str(installed / "python" / "lib" / "pyspark.zip")}
    command = ["-c", "import pyspark; print(pyspark.__file__)"]
    for interpreter, expected in ((script, installed), (sys.executable, installed / "python/lib/pyspark.zip/pyspark")):
        result = subprocess.run([interpreter, *command], env=environment, capture_output=True, text=True, check=True)
        assert Path(result.stdout.strip()).parent == expected


def test_another_spark_home_keeps_its_own_pyspark(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path), "SPARK_HOME": str(tmp_path)}
    assert choose_interpreter(environment, local=True) == sys.executable


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert choose_interpreter({"XDG_CACHE_HOME": str(tmp_path / "file")}, local=True) == sys.executable
