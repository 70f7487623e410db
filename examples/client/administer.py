"""Topics, configs, groups and offsets."""

import asyncio
import os

from penstock.client import Admin, OffsetSpec, Producer, ResourceType, TopicPartition

BOOTSTRAP = os.environ.get("PENSTOCK_BOOTSTRAP", "127.0.0.1:9092")


async def main() -> None:
    topic = "example-administered"
    async with Admin(bootstrap_servers=BOOTSTRAP) as admin, Producer(bootstrap_servers=BOOTSTRAP) as producer:
        if topic in [info.name for info in await admin.list_topics()]:
            await admin.delete_topic(topic)
        await admin.create_topic(topic, 2, configs={"cleanup.policy": "compact"})
        await admin.alter_configs(ResourceType.TOPIC, topic, {"retention.ms": "86400000"})
        configs = await admin.describe_configs(ResourceType.TOPIC, topic)
        print({entry.name: entry.value for entry in configs.values() if not entry.is_default})

        for number in range(10):
            await producer.send(topic, b"v", key=b"k%d" % number, partition=0)
        await producer.flush()
        first = TopicPartition(topic, 0)
        print("end of partition 0:", (await admin.list_offsets({first: OffsetSpec.LATEST}))[first].offset)

        await admin.alter_group_offsets("example-readers", {first: 4})
        print("offsets:", await admin.list_group_offsets("example-readers"))
        print("groups:", [group.group_id for group in await admin.list_groups()])


asyncio.run(main())
