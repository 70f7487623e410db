"""`penstock serve`: run a broker."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from penstock.cli.failures import Failure
from penstock.cli.options import CONTEXT_SETTINGS, Command, defaults_for, load_config, option, pairs


def _read_file(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """`penstock serve --config FILE` is the same as `penstock --config FILE serve`."""
    if value is not None:
        ctx.default_map = defaults_for(ctx.command, ctx, load_config(value))
    return value


@click.command(cls=Command, context_settings=CONTEXT_SETTINGS)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False),
    is_eager=True,
    expose_value=False,
    callback=_read_file,
    help="TOML file with these options under [serve].",
)
@option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("penstock-data"),
    show_default=True,
    help="Folder for everything that the broker keeps.",
)
@option(
    "--listen",
    metavar="HOST:PORT",
    multiple=True,
    default=["127.0.0.1:9092"],
    show_default=True,
    help="Address to listen on; port 0 takes a free one.",
)
@option(
    "--advertise",
    metavar="HOST:PORT",
    multiple=True,
    help="Address under which clients reach this broker, if it is another than the one it listens on.",
)
@option("-c", "--set", "configs", metavar="NAME=VALUE", multiple=True, help="A broker config by its name in Kafka.")
def serve(data: Path, listen: tuple[str, ...], advertise: tuple[str, ...], configs: tuple[str, ...]) -> None:
    """Run a broker until Ctrl-C.

    Examples:

    \b
      penstock serve
      penstock serve --data /var/lib/penstock --listen 0.0.0.0:9092 --advertise broker.example:9092
      penstock serve -c log.retention.hours=24 -c auto.create.topics.enable=false
    """
    from penstock.broker.config import ConfigError
    from penstock.broker.foundation import Settings
    from penstock.broker.listeners import ListenError
    from penstock.broker.run import run
    from penstock.catalog.contract import CatalogError
    from penstock.log.errors import FolderInUse, StorageError

    set_configs = _configs(configs)
    try:
        settings = Settings(
            data=_data(data, set_configs),
            listen=_listen(list(listen), set_configs),
            advertise=list(advertise),
            configs=set_configs,
        )
        run(settings)
    except (ConfigError, ListenError, CatalogError, StorageError, FolderInUse) as error:
        text = str(error)
        raise Failure(text[:1].upper() + text[1:]) from error


def _configs(values: tuple[str, ...]) -> dict[str, str]:
    """`-c` arguments, over those of the config file's [serve.set] table."""
    from_file = (click.get_current_context().default_map or {}).get("configs", [])
    return pairs(tuple(from_file), "[serve.set]") | pairs(values, "-c")


def _listen(addresses: list[str], configs: dict[str, str]) -> list[str]:
    """Kafka's `listeners` stand in for --listen where that is not given."""
    listeners = [address.strip() for address in configs.get("listeners", "").split(",") if address.strip()]
    return listeners if listeners and _is_default("listen") else addresses


def _data(folder: Path, configs: dict[str, str]) -> Path:
    """Kafka's `log.dirs`, or `log.dir`, stand in for --data where that is not given; the broker refuses several."""
    named = (configs.get("log.dirs") or configs.get("log.dir") or "").strip()
    return Path(named) if named and _is_default("data") else folder


def _is_default(parameter: str) -> bool:
    return click.get_current_context().get_parameter_source(parameter) is ParameterSource.DEFAULT
