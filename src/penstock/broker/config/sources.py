"""A broker's static configs from the environment.

The environment variables are those of Apache Kafka's container images: `KAFKA_` and the name in capitals, with dots
written as underscores.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.broker.config.broker import BROKER

_ENVIRONMENT_PREFIX = "KAFKA_"
_LISTENER_VARIABLES = "KAFKA_LISTENER_NAME_"
_BITNAMI_PREFIX = "KAFKA_CFG_"


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The configs that variables such as KAFKA_NUM_PARTITIONS set. Others with that prefix belong to other programs.

    KAFKA_CFG_NUM_PARTITIONS, as in Bitnami's image, is the same; the shorter name wins.
    """
    names = {_variable(name): name for name in BROKER}
    found = {}
    for given, value in sorted(environment.items(), key=lambda each: not each[0].startswith(_BITNAMI_PREFIX)):
        is_bitnami = given.startswith(_BITNAMI_PREFIX)
        variable = _ENVIRONMENT_PREFIX + given.removeprefix(_BITNAMI_PREFIX) if is_bitnami else given
        name = names.get(variable)
        if name is None and variable.startswith(_LISTENER_VARIABLES):
            name = re.sub(
                "___?|_",
                lambda match: {3: "-", 2: "_", 1: "."}[len(match[0])],
                variable.removeprefix(_ENVIRONMENT_PREFIX).lower(),
            )
        if name is not None:
            found[name] = value
    return found


def _variable(name: str) -> str:
    # As in Kafka's images: an underscore of the name is doubled, a dash tripled, so that dots are the single ones.
    return _ENVIRONMENT_PREFIX + name.replace("_", "__").replace("-", "___").replace(".", "_").upper()
