"""Kafka's configs: what there is, what a value means, and which of several settings counts."""

from penstock.broker.config.broker import BROKER
from penstock.broker.config.configs import ALL_BROKERS, Configs
from penstock.broker.config.definitions import ConfigError, ConfigType, Definition, Value
from penstock.broker.config.group import GROUP
from penstock.broker.config.listeners import ListenerConfig, check_listeners
from penstock.broker.config.resolver import BrokerConfig, Entry, GroupConfigs, Source, Synonym, TopicConfigs
from penstock.broker.config.sources import from_environment
from penstock.broker.config.spelling import describe_unknown
from penstock.broker.config.topic import TOPIC
from penstock.properties import read_properties

__all__ = [
    "ALL_BROKERS",
    "BROKER",
    "GROUP",
    "TOPIC",
    "BrokerConfig",
    "ConfigError",
    "ConfigType",
    "Configs",
    "Definition",
    "Entry",
    "GroupConfigs",
    "ListenerConfig",
    "Source",
    "Synonym",
    "TopicConfigs",
    "Value",
    "check_listeners",
    "describe_unknown",
    "from_environment",
    "read_properties",
]
