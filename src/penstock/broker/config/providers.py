"""Kafka's config providers (KIP-297): values that stand elsewhere, so that secrets need not stand among the configs.

    config.providers=file,env
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.file.param.allowed.paths=/run/secrets
    config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
    ssl.key.password=${file:/run/secrets/broker.properties:key.password}
    ssl.keystore.key=${env:BROKER_KEY}

Three providers are known, by Kafka's class names: files of properties, the environment, and folders in which each file
holds one value (`${dir:/run/secrets:key.pem}`). Where Kafka leaves a variable that it cannot resolve as it stands, the
broker does not start: nobody means `${env:TYPO}` to be a password.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.broker.config.definitions import ConfigError

PROVIDERS = "config.providers"
_PREFIX = f"{PROVIDERS}."
_PACKAGE = "org.apache.kafka.common.config.provider."
_VARIABLE = r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}"
LARGEST_FILE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class _Provider:
    alias: str
    parameters: Mapping[str, str]
    environment: Mapping[str, str]

    def allowed(self, path: str) -> str:
        """The path, if the provider may read it: all paths, unless `allowed.paths` names some."""
        real = os.path.realpath(path)
        named = self.parameters.get("allowed.paths", "")
        allowed = [os.path.realpath(each.strip()) for each in named.split(",") if each.strip()]
        if not path or (allowed and not any(os.path.commonpath([real, each]) == each for each in allowed)):
            raise ConfigError(f"the path {path!r} is not among {_PREFIX}{self.alias}.param.allowed.paths")
        return real


def resolve(configs: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The configs with all variables replaced, and without those of the providers themselves."""
    providers = _providers(configs, environment)
    plain = {name: value for name, value in configs.items() if name != PROVIDERS and not name.startswith(_PREFIX)}
    if not providers:
        return plain
    return {name: _resolved(name, value, providers) for name, value in plain.items()}


def is_variable(value: str) -> bool:
    """Whether a value stands elsewhere altogether."""
    return re.fullmatch(_VARIABLE, value.strip()) is not None


def _providers(
    configs: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, tuple[_Provider, Callable[[_Provider, str, str], str]]]:
    found = {}
    for alias in (each.strip() for each in configs.get(PROVIDERS, "").split(",")):
        if not alias:
            continue
        class_name = configs.get(f"{_PREFIX}{alias}.class", "").strip()
        read = _READERS.get(class_name.removeprefix(_PACKAGE))
        if read is None:
            known = ", ".join(_PACKAGE + name for name in _READERS)
            raise ConfigError(f"Cannot accept {_PREFIX}{alias}.class={class_name}: it must be one of {known}.")
        prefix = f"{_PREFIX}{alias}.param."
        parameters = {name.removeprefix(prefix): value for name, value in configs.items() if name.startswith(prefix)}
        found[alias] = (_Provider(alias, parameters, environment), read)
    return found


def _resolved(
    name: str, value: str, providers: Mapping[str, tuple[_Provider, Callable[[_Provider, str, str], str]]]
) -> str:
    def replacement(match: re.Match[str]) -> str:
        alias, path, key = match[1], match[2] or "", match[3]
        if alias not in providers:
            raise ConfigError(f"Cannot resolve {match[0]} in {name}: {PROVIDERS} does not name {alias!r}.")
        provider, read = providers[alias]
        try:
            return read(provider, path, key)
        except OSError as error:
            raise ConfigError(f"Cannot resolve {match[0]} in {name}: {error.strerror} ({path}).") from None
        except (ConfigError, UnicodeDecodeError) as error:
            raise ConfigError(f"Cannot resolve {match[0]} in {name}: {error}.") from None

    return re.sub(_VARIABLE, replacement, value)


def _from_file(provider: _Provider, path: str, key: str) -> str:
    from penstock.properties import read_properties

    properties = read_properties(_read(provider.allowed(path)))
    if key not in properties:
        raise ConfigError(f"{path} has no key {key!r}")
    return properties[key]


def _from_directory(provider: _Provider, path: str, key: str) -> str:
    if key in ("", ".", "..") or "/" in key:
        raise ConfigError(f"{key!r} is not the name of a file")
    folder = provider.allowed(path)
    return _read(os.path.join(folder, key))


def _from_environment(provider: _Provider, path: str, key: str) -> str:
    if path:
        raise ConfigError("a variable of the environment has no path: write ${env:NAME}")
    pattern = provider.parameters.get("allowlist.pattern", ".*")
    try:
        is_allowed = re.fullmatch(pattern, key) is not None
    except re.error as error:
        raise ConfigError(f"allowlist.pattern is not a regular expression: {error}") from None
    if not is_allowed:
        raise ConfigError(f"{_PREFIX}{provider.alias}.param.allowlist.pattern does not allow it")
    if key not in provider.environment:
        raise ConfigError(f"the environment has no variable {key!r}")
    return provider.environment[key]


def _read(path: str) -> str:
    with open(path, "rb") as file:
        content = file.read(LARGEST_FILE_BYTES + 1)
    if len(content) > LARGEST_FILE_BYTES:
        raise ConfigError(f"the file is larger than {LARGEST_FILE_BYTES} bytes")
    return content.decode()


_READERS: dict[str, Callable[[_Provider, str, str], str]] = {
    "FileConfigProvider": _from_file,
    "DirectoryConfigProvider": _from_directory,
    "EnvVarConfigProvider": _from_environment,
}
