"""Quotas that change under load: one entity has several, which are changed one by one through any broker.

A broker that wrote all quotas of the entity as it knows them would undo what others have changed a moment ago. Whether
a producer is throttled shows what holds: its requests are larger than all that the small rate lets it save up, and
nothing to the large one.
"""

from __future__ import annotations

import random

from penstock.wire import messages as m
from tests.simulation.administration import Administered, Setting
from tests.simulation.raw import Lost, RawClient
from tests.simulation.stream_requests import produce_request

_RATE = "producer_byte_rate"
_NAMES = (_RATE, "consumer_byte_rate", "controller_mutation_rate")
_UNSET = ""
_SMALL, _LARGE = 20, 1_000_000_000
_BODY = "x" * 1_000
_USERS = "user"
_EVERYBODY = 1
"""How a filter matches the default of a type of entities."""


class Quotas(Administered):
    """Quotas of all users change under producers: what was confirmed is shown and obeyed from the next request on, also
    after a restart."""

    name = "quotas"

    def make_settings(self) -> dict[str, Setting]:
        return {name: Setting(name, _UNSET) for name in _NAMES}

    def next_value(self, setting: Setting, number: int, chance: random.Random) -> str:
        return chance.choice([_UNSET, str(_SMALL + number), str(_LARGE + number)])

    async def change(self, client: RawClient, setting: Setting, value: str) -> int:
        request = m.AlterClientQuotasRequest
        op = request.OpData(setting.name, remove=True) if value == _UNSET else request.OpData(setting.name, int(value))
        entry = request.EntryData([request.EntityData(_USERS, None)], [op])
        answer = await client.ask(request([entry]), m.AlterClientQuotasResponse)
        return int(answer.entries[0].error_code)

    async def use(self, client: RawClient, name: str, partition: int, chance: random.Random) -> None:
        sent = self.world.loop.time()
        if chance.random() < 0.4:
            setting = self.settings[chance.choice(_NAMES)]
            value = await self.shown(client, setting)
            self.saw(setting, sent, f"{name} was shown {value}", lambda each: each == value)
            return
        answer = await client.ask(produce_request(partition, _BODY, -1), m.ProduceResponse, 12)
        is_throttled = answer.throttle_time_ms > 0
        if is_throttled:
            client.close()  # it is not read for as long
        self.figures["producers throttled"] += is_throttled
        what = f"{name} was {'' if is_throttled else 'not '}throttled"
        self.saw(self.settings[_RATE], sent, what, lambda each: _throttles(each) == is_throttled)

    async def shown(self, client: RawClient, setting: Setting) -> str:
        request = m.DescribeClientQuotasRequest
        described = request([request.ComponentData(_USERS, _EVERYBODY, None)], strict=True)
        answer = await client.ask(described, m.DescribeClientQuotasResponse)
        if answer.error_code:
            client.close()
            raise Lost
        values = {each.key: each.value for entry in answer.entries or () for each in entry.values}
        return str(int(values[setting.name])) if setting.name in values else _UNSET


def _throttles(value: str) -> bool:
    return value != _UNSET and int(value) < _LARGE
