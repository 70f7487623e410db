"""Configs and access rules that change under load: what was confirmed is obeyed from the next request on.

One administrator changes one setting after the other. A change whose answer was lost may be carried out at any later
time. Whoever looks at a setting, or uses what it decides about, is shown a value that it may have had between the
request and the answer. Brokers of a cluster hear of changes from the catalog, each in its own time: they may be late
while faults happen, and agree in the end.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.broker.listeners import Address
from penstock.security.acls import CLUSTER_NAME, AclBinding
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType
from penstock.wire.config_resources import ResourceType
from penstock.wire.errors import ErrorCode
from tests.simulation.raw import Lost, RawClient
from tests.simulation.scenario import Scenario
from tests.simulation.stream_requests import PARTITIONS, TOPIC, fetch_request, produce_request

_GROUP = "readers"
_CHANGES = 25
_SETTLED_SECONDS = 15.0
_ROUNDS = 8
_HEARD_SECONDS = 2.0
"""Within which a change is known to all brokers when there are no faults."""
_RETRY_SECONDS = 0.05
_DEFAULTS = ""
"""The name of all brokers together."""
_SMALL, _LARGE = 300, 2_000
_BODY = "x" * 1_000
_SET = 0
_NEVER = float("inf")
_ANYBODY = "User:ANONYMOUS"


_CONFIGS = {
    "max.message.bytes": (ResourceType.TOPIC, TOPIC),
    "message.timestamp.type": (ResourceType.TOPIC, TOPIC),
    "consumer.session.timeout.ms": (ResourceType.GROUP, _GROUP),
    "log.retention.ms": (ResourceType.BROKER, _DEFAULTS),
}
_RULES = {"write": AclOperation.WRITE, "read": AclOperation.READ}


class _Change(NamedTuple):
    value: str
    sent: float
    confirmed: float


class Setting:
    """What was requested of one setting, and when that was confirmed."""

    def __init__(self, name: str, value: str) -> None:
        self.name = name
        self.changes = [_Change(value, -1.0, -1.0)]

    def changed(self, value: str, sent: float, confirmed: float = _NEVER) -> None:
        """Without a time of confirmation nobody knows whether it was changed, or will be."""
        self.changes.append(_Change(value, sent, confirmed))

    def may_be(self, sent: float, answered: float) -> list[str]:
        """The values that it may have had between a request and its answer."""
        over = max(change.sent for change in self.changes if change.confirmed < sent)
        return [
            change.value
            for change in self.changes
            if change.sent <= answered and (change.sent >= over or change.confirmed == _NEVER)
        ]

    def ever(self) -> list[str]:
        return [change.value for change in self.changes]


class Administered(Scenario):
    """Programs that use what an administrator changes. Subclasses say what that is."""

    lasts_ms = 5_000
    is_strict = True
    """Whether a confirmed change holds for the next request, whoever answers it."""

    async def prepare(self) -> None:
        await self.create_topic(TOPIC, PARTITIONS)
        self.stopped = False
        self.settings = self.make_settings()

    def make_settings(self) -> dict[str, Setting]:
        raise NotImplementedError

    async def load(self) -> None:
        users = [self.world.spawn(f"user-{number}", self._use, f"user-{number}") for number in range(3)]
        await self.world.spawn("administrator", self._administrate).task
        self.stopped = True
        await asyncio.gather(*(each.task for each in users))

    # -- the administrator ---------------------------------------------------------------------------------------------

    async def _administrate(self) -> None:
        chance = random.Random(f"administrator of {self.seed}")
        for number in range(_CHANGES):
            await asyncio.sleep(chance.uniform(0, 0.4))
            setting = self.settings[chance.choice(list(self.settings))]
            value = self.next_value(setting, number, chance)
            setting.changed(value, self.world.loop.time())
            try:
                client = await self.somewhere("administrator", chance)
                await self._request(client, setting)
                client.close()
            except Lost:
                self.world.tell("administrator", f"does not know whether {setting.name} is {value}")

    async def _request(self, client: RawClient, setting: Setting) -> None:
        """Have a setting changed as noted down last. Raises Lost."""
        value, sent = setting.changes[-1].value, self.world.loop.time()
        error = await self.change(client, setting, value)
        if error == 0:
            setting.changes.pop()
            setting.changed(value, sent, self.world.loop.time())
            self.figures["changes confirmed"] += 1
            self.world.tell("administrator", f"{setting.name} is {value}")
        else:
            self.world.tell("administrator", f"{setting.name} may be {value}: error {error}")

    def next_value(self, setting: Setting, number: int, chance: random.Random) -> str:
        raise NotImplementedError

    async def change(self, client: RawClient, setting: Setting, value: str) -> int:
        """Returns the error code."""
        raise NotImplementedError

    # -- the users -----------------------------------------------------------------------------------------------------

    async def somewhere(self, name: str, chance: random.Random) -> RawClient:
        """Connected to any broker."""
        return await RawClient.connect(self.world, name, address=chance.choice(self.world.nodes).address)

    async def _use(self, name: str) -> None:
        chance = random.Random(f"{name} of {self.seed}")
        client: RawClient | None = None
        while not self.stopped:
            await asyncio.sleep(chance.uniform(0, 0.1))
            try:
                if client is None or client.is_lost or chance.random() < 0.2:
                    if client is not None:
                        client.close()
                    partition = chance.randrange(PARTITIONS)
                    client = await self.connect(name, partition)
                await self.use(client, name, partition, chance)
            except Lost:
                await asyncio.sleep(_RETRY_SECONDS)

    async def use(self, client: RawClient, name: str, partition: int, chance: random.Random) -> None:
        raise NotImplementedError

    def saw(self, setting: Setting, sent: float, what: str, fits: Callable[[str], bool]) -> None:
        """Somebody was shown that a setting has a value that fits."""
        now = self.world.loop.time()
        self.figures["looks"] += 1
        possible = setting.may_be(sent, now) if self.is_strict or self.at_rest else setting.ever()
        if not any(map(fits, possible)):
            text = f"at {round(now * 1000)} {what}, and {setting.name} was {' or '.join(possible)}"
            self.find("not-obeyed", text)

    # -- the end -------------------------------------------------------------------------------------------------------

    at_rest = False

    async def finish(self) -> None:
        await asyncio.sleep(_SETTLED_SECONDS)
        self.at_rest = True
        await self._agree()
        chance = random.Random(f"last changes of {self.seed}")
        for number in range(_CHANGES, _CHANGES + _ROUNDS):
            await self._change_in_a_row(number, chance)
            await asyncio.sleep(_HEARD_SECONDS)
            await self._agree()

    async def _change_in_a_row(self, number: int, chance: random.Random) -> None:
        """Changes through one broker after the other, which has hardly had the time to hear of the change before."""
        clients = [await RawClient.connect(self.world, "last", address=node.address) for node in self.world.nodes]
        for client in chance.sample(clients, len(clients)):
            setting = self.settings[chance.choice(list(self.settings))]
            setting.changed(self.next_value(setting, number, chance), self.world.loop.time())
            await self._request(client, setting)
        for client in clients:
            client.close()

    async def _agree(self) -> None:
        """Look at what all brokers show."""
        shown = [await self.look(node.address) for node in self.world.nodes]
        for name in self.settings:
            if len({each[name] for each in shown}) > 1:
                self.find("not-agreed", f"brokers show {name} as {[each[name] for each in shown]}")

    async def look(self, address: Address) -> dict[str, str]:
        """The value of each setting, as one broker shows it."""
        client = await RawClient.connect(self.world, "last", address=address)
        shown: dict[str, str] = {}
        for name, setting in self.settings.items():
            sent = self.world.loop.time()
            shown[name] = value = await self.shown(client, setting)
            self.saw(setting, sent, f"{address.host} shows {value}", lambda each, value=value: each == value)  # type: ignore[misc]
        client.close()
        return shown

    async def shown(self, client: RawClient, setting: Setting) -> str:
        raise NotImplementedError


class Configs(Administered):
    """Configs of a topic, of a group and of all brokers change under producers: what was confirmed is shown and obeyed
    from the next request on, also after a restart."""

    name = "configs"

    def make_settings(self) -> dict[str, Setting]:
        first = ("1048588", "CreateTime", "45000", "")
        return {name: Setting(name, value) for name, value in zip(_CONFIGS, first, strict=True)}

    def next_value(self, setting: Setting, number: int, chance: random.Random) -> str:
        if setting.name == "max.message.bytes":
            return str(chance.choice([_SMALL, _LARGE]) + number)
        if setting.name == "message.timestamp.type":
            return chance.choice(["CreateTime", "LogAppendTime"])
        return str({"consumer.session.timeout.ms": 46_000, "log.retention.ms": 900_000_000}[setting.name] + number)

    async def change(self, client: RawClient, setting: Setting, value: str) -> int:
        request = m.IncrementalAlterConfigsRequest
        kind, name = _CONFIGS[setting.name]
        changed = request.AlterConfigsResource(kind, name, [request.AlterableConfig(setting.name, _SET, value)])
        answer = await client.ask(request([changed]), m.IncrementalAlterConfigsResponse)
        return int(answer.responses[0].error_code)

    async def use(self, client: RawClient, name: str, partition: int, chance: random.Random) -> None:
        sent = self.world.loop.time()
        if chance.random() < 0.4:
            setting = self.settings[chance.choice(list(self.settings))]
            value = await self.shown(client, setting)
            self.saw(setting, sent, f"{name} was shown {value}", lambda each: each == value)
            return
        answer = await client.ask(produce_request(partition, _BODY, -1), m.ProduceResponse, 12)
        [result] = answer.responses[0].partition_responses
        size = self.settings["max.message.bytes"]
        if result.error_code == ErrorCode.MESSAGE_TOO_LARGE:
            self.figures["batches refused"] += 1
            self.saw(size, sent, f"{name} was refused a large batch", lambda each: int(each) < _LARGE)
        elif result.error_code == 0:
            self.saw(size, sent, f"{name} wrote a large batch", lambda each: int(each) >= _LARGE)
            is_stamped = result.log_append_time_ms >= 0
            how = "with the time of" + (" the broker" if is_stamped else " its own")
            kind = ("CreateTime", "LogAppendTime")[is_stamped]
            self.saw(self.settings["message.timestamp.type"], sent, f"{name} wrote {how}", lambda each: each == kind)

    async def shown(self, client: RawClient, setting: Setting) -> str:
        request = m.DescribeConfigsRequest
        kind, name = _CONFIGS[setting.name]
        described = request.DescribeConfigsResource(kind, name, [setting.name])
        answer = await client.ask(request([described]), m.DescribeConfigsResponse)
        [result] = answer.results
        if result.error_code:
            client.close()
            raise Lost
        return next((each.value or "" for each in result.configs), "")


class Rules(Administered):
    """Access rules change under producers and readers, whose next request is allowed or denied as they say."""

    name = "acls"
    _YES, _NO = "allowed", "denied"

    @classmethod
    def configs(cls, seed: int) -> dict[str, str]:
        return {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}

    def before_start(self) -> None:
        super().before_start()
        cluster = (AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.CREATE)
        always = [AclBinding(AclResource.CLUSTER, CLUSTER_NAME, _ANYBODY, operation) for operation in cluster]
        self.catalog.change_acls([*always, AclBinding(AclResource.TOPIC, TOPIC, _ANYBODY, AclOperation.DESCRIBE)], [])

    def make_settings(self) -> dict[str, Setting]:
        return {name: Setting(name, self._NO) for name in _RULES}

    def next_value(self, setting: Setting, number: int, chance: random.Random) -> str:
        return chance.choice([self._YES, self._NO])

    async def change(self, client: RawClient, setting: Setting, value: str) -> int:
        kind, pattern = AclResource.TOPIC, PatternType.LITERAL
        operation, permission = _RULES[setting.name], AclPermission.ALLOW
        if value == self._YES:
            created = m.CreateAclsRequest.AclCreation(kind, TOPIC, pattern, _ANYBODY, "*", operation, permission)
            creation = await client.ask(m.CreateAclsRequest([created]), m.CreateAclsResponse)
            return int(creation.results[0].error_code)
        deleted = m.DeleteAclsRequest.DeleteAclsFilter(kind, TOPIC, pattern, _ANYBODY, "*", operation, permission)
        deletion = await client.ask(m.DeleteAclsRequest([deleted]), m.DeleteAclsResponse)
        return int(deletion.filter_results[0].error_code)

    async def use(self, client: RawClient, name: str, partition: int, chance: random.Random) -> None:
        sent = self.world.loop.time()
        if chance.random() < 0.5:
            answer = await client.ask(produce_request(partition, name, -1), m.ProduceResponse, 12)
            self._judge("write", answer.responses[0].partition_responses[0].error_code, name, sent)
        else:
            wait_ms = chance.choice([0, 500])
            fetched = await client.ask(fetch_request({partition: 1 << 40}, 0, wait_ms), m.FetchResponse, 12)
            self._judge("read", fetched.responses[0].partitions[0].error_code, name, sent)

    def _judge(self, what: str, error: int, name: str, sent: float) -> None:
        if error in (0, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            seen = self._NO if error == ErrorCode.TOPIC_AUTHORIZATION_FAILED else self._YES
            self.figures[f"times it was {seen}"] += 1
            self.saw(self.settings[what], sent, f"{name} was {seen} to {what}", lambda each: each == seen)

    async def shown(self, client: RawClient, setting: Setting) -> str:
        kind, pattern = AclResource.TOPIC, PatternType.LITERAL
        operation = _RULES[setting.name]
        request = m.DescribeAclsRequest(kind, TOPIC, pattern, _ANYBODY, "*", operation, AclPermission.ALLOW)
        answer = await client.ask(request, m.DescribeAclsResponse)
        rules: Sequence[object] = answer.resources
        return self._YES if rules else self._NO
