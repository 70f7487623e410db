"""The cluster's metadata in SQL: what must outlive every process and is no record of a topic."""

from penstock.catalog.schema import CatalogError
from penstock.catalog.store import BrokerRow, Catalog, ResourceType, TopicExists, TopicRow, UnknownTopic

__all__ = ["BrokerRow", "Catalog", "CatalogError", "ResourceType", "TopicExists", "TopicRow", "UnknownTopic"]
