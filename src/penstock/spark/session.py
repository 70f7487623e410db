"""A Spark session with the settings that were measured to matter for this work.

* Unix domain sockets between the JVM and Python: about a fifth more rows per second, and shorter micro-batches.
* The file manager for checkpoints that writes to a local disk in half the time (only when Spark runs locally; on a
  cluster the checkpoint lies elsewhere and Spark's own choice stands).
* 50,000 rows per Arrow batch: with Spark's 10,000 a third of the speed is lost between batches.
* A daemon that has pyarrow and the compiled decoders loaded before it forks workers: 0.36 s less for each of them.
* Workers that import PySpark from site-packages and not from Spark's zip (see `interpreter`): three to four seconds of
  processor time less for the first query of a local session.
* A process that has imported all of it while the JVM starts, from which all Python workers are forked (`forking`), and
  an archive of Spark's classes for the JVM (`class_archive`): a first query takes two seconds less.
* Arrow's checks of every single access to a buffer are off in the JVM: a quarter less time there. What they guard
  against is memory that pyarrow did not lay out; a batch is still checked as a whole when it arrives.
* The parallel garbage collector for a local driver, which moves many short-lived rows: 5 to 15 % less time.
* Nothing on the standard error of a local session but what is logged from `log_level` on (see `gateway`).
* UTC, so that a timestamp means the same in the log, in the table and on the driver.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.spark import forking, gateway
from penstock.spark.class_archive import archive_options
from penstock.spark.interpreter import VARIABLES, choose_interpreter, installed_spark, is_shim
from penstock.spark.java import SetupError, cache_folder, find_java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_SPARK = (4, 2)  # the first with admission control and Trigger.AvailableNow for Python sources

_ARROW = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
_LOGGING = Path(__file__).with_name("log4j2.properties")
_COLLECTOR = "-XX:+UseParallelGC"
_JAVA_OPTIONS = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
# Where somebody else may have chosen a collector already: Java refuses to start with two.
_ELSEWHERE = (
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONF_DIR",
    "SPARK_HOME",
)

SETTINGS: Mapping[str, str] = {
    # The "default" options stand in front of the "extra" ones, which are the user's.
    "spark.driver.defaultJavaOptions": _ARROW,
    "spark.executor.defaultJavaOptions": _ARROW,
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.python.daemon.module": "penstock.spark.daemon",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}
LOCAL_SETTINGS: Mapping[str, str] = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def session(
    app: str = "penstock",
    master: str = "local[*]",
    *,
    ui: bool = False,
    log_level: str = "ERROR",
    config: Mapping[str, object] | None = None,
    **conf: object,
) -> SparkSession:
    """The Spark session of this process, which is created if there is none.

    Spark's settings go into `config` by their names, or are arguments with underscores for dots:
    `session(spark_driver_memory="4g")`. These override the settings that `session` chooses itself.
    """
    check_versions()
    from pyspark.sql import SparkSession as Session

    archive = ""
    new = Session.getActiveSession() is None
    if new and not master.startswith("sc://"):
        _set_interpreter(local=master.startswith("local"))
        os.environ["JAVA_HOME"] = str(find_java_home())
        if master.startswith("local"):
            archive = _archive()
            # Nobody else has to reach a driver that runs everything itself.
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = settings_for(master, ui, {**(config or {}), **_dotted(conf)}, _java_options(log_level, archive))
    if new and master.startswith("local"):
        gateway.launch({"spark.app.name": app, "spark.master": master, **settings})
    builder = Session.builder.appName(app)
    builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if not master.startswith("sc://"):
        spark.sparkContext.setLogLevel(log_level)
    return spark


def settings_for(master: str, ui: bool, given: Mapping[str, object], java_options: str = "") -> dict[str, str]:
    """All settings of a session, as text. `java_options` are more arguments for the Java of a local driver."""
    settings = {**SETTINGS, "spark.ui.enabled": str(ui).lower()}
    if master.startswith("local"):
        settings.update(LOCAL_SETTINGS)
        if not any(name in os.environ for name in _ELSEWHERE) and not any(name in given for name in _JAVA_OPTIONS):
            settings["spark.driver.defaultJavaOptions"] = " ".join(filter(None, (_ARROW, _COLLECTOR, java_options)))
    for name, value in given.items():
        settings[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return settings


def _java_options(log_level: str, archive: str) -> str:
    options = [archive] if archive else []
    if not set(str(_LOGGING)) & set(" \"'"):  # Spark would take a path with a space for two arguments
        options += [f"-Dlog4j2.configurationFile=file:{_LOGGING}", f"-Dpenstock.spark.log.level={log_level}"]
    return " ".join(options)


def _set_interpreter(*, local: bool) -> None:
    chosen = choose_interpreter(os.environ, local=local)
    for variable in VARIABLES:
        # What an earlier session in this process chose is chosen anew; what the user chose stays.
        if variable not in os.environ or is_shim(os.environ[variable], os.environ):
            os.environ[variable] = chosen
    if local and is_shim(os.environ["PYSPARK_PYTHON"], os.environ):
        forking.start(os.environ)


def _archive() -> str:
    spark = installed_spark()
    return archive_options(Path(os.environ["JAVA_HOME"]), spark, cache_folder(os.environ)) if spark else ""


def check_versions() -> None:
    """Raise `SetupError` unless a Spark, and with it a pandas and a pyarrow, are there that work together."""
    try:
        import pyspark
    except ImportError:
        raise SetupError("Spark is not installed: pip install 'penstock[spark]'") from None
    version = tuple(int(part) for part in re.findall(r"\d+", pyspark.__version__)[:2])
    if version < OLDEST_SPARK:
        raise SetupError(
            f"this is Spark {pyspark.__version__}; its Python data sources are too old, "
            f"{OLDEST_SPARK[0]}.{OLDEST_SPARK[1]} or newer is needed: pip install 'penstock[spark]'"
        )
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise SetupError("pyarrow is not installed: pip install 'penstock[spark]'") from None


def _dotted(conf: Mapping[str, object]) -> dict[str, object]:
    return {name.replace("_", "."): value for name, value in conf.items()}
