"""Which handler answers which API. What is not here is not advertised."""

from __future__ import annotations

from penstock.broker.handlers import fetch, metadata, offsets, produce, producers, topics, versions
from penstock.broker.requests import Handler
from penstock.wire.api import ApiKey

HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.PRODUCE: produce.handle_produce,
    ApiKey.FETCH: fetch.handle_fetch,
    ApiKey.LIST_OFFSETS: offsets.handle_list_offsets,
    ApiKey.METADATA: metadata.handle_metadata,
    ApiKey.API_VERSIONS: versions.handle_api_versions,
    ApiKey.CREATE_TOPICS: topics.handle_create_topics,
    ApiKey.DELETE_TOPICS: topics.handle_delete_topics,
    ApiKey.DELETE_RECORDS: offsets.handle_delete_records,
    ApiKey.INIT_PRODUCER_ID: producers.handle_init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offsets.handle_offset_for_leader_epoch,
    ApiKey.CREATE_PARTITIONS: topics.handle_create_partitions,
    ApiKey.DESCRIBE_CLUSTER: metadata.handle_describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: producers.handle_describe_producers,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: metadata.handle_describe_topic_partitions,
}
