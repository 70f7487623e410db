"""Listeners with SASL, under load: who logs in, as whom, until when, while users and rules change.

An administrator creates users, gives them other passwords, removes them, and changes what they may do. Visitors log in
with passwords that are right, were right, or never were; they stay for longer than their sessions may last, or
authenticate again in time. An application of `penstock.client` is started anew with each password. All other programs
are the load of some other scenario, and log in as a service whose password stays.

What was confirmed holds from the next login on, and sessions that rest on an earlier password end within a second of
the time for which the broker runs. Brokers of a cluster hear of changes from the catalog: one that holds its lease is
late by no more than `late_seconds`, and in the end all of them agree.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import tempfile
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from penstock.catalog.contract import CredentialRow
from penstock.client.errors import AuthenticationFailed
from penstock.client.producer import Producer
from penstock.client.security import Token
from penstock.security import scram
from penstock.security.acls import CLUSTER_NAME, AclBinding
from penstock.security.protocols import SecurityProtocol
from penstock.security.scram import MIN_ITERATIONS, ScramMechanism
from penstock.simulation.loop import Process
from penstock.simulation.node import Node
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType
from penstock.wire.errors import ErrorCode, KafkaError
from tests.simulation.administration import Setting
from tests.simulation.certificates import pem
from tests.simulation.queues import Queues
from tests.simulation.raw import Lost, RawClient, Refused, access
from tests.simulation.scenario import Scenario
from tests.simulation.stream_requests import PARTITIONS, TOPIC, fetch_request, produce_request
from tests.simulation.streams import Streams, Transactions

_ENDED_SECONDS = 1.0
"""How long after a change, as the manual has it, a session may last that rests on what was changed."""
_VISITORS = 2
_PASSWORDS_KEPT = 500
_IMPOSTORS = 0.2
"""How often a client authenticates again as somebody else."""
_FORGETFUL = 0.3
"""How many visitors do not authenticate again before their sessions are over."""
_RETRY_SECONDS = 0.05
_NONE = ""
"""The password of a user who does not exist."""
_NEVER_ISSUED = "nobody's"
_YES, _NO = "allowed", "denied"
_SALT = b"0123456789abcdefghijklmn"
_TOKENS_UNTIL, _TOKENS_FROM, _LONG_AGO = 4_102_444_800, 1_577_836_800, 1_600_000_000
_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")
_SERVICE, _ADMIN, _ROBOT, _APPLICATION = "service", "admin", "robot", "app"
_GUESTS = ("ann", "ben")
_RULES = {"write": AclOperation.WRITE, "read": AclOperation.READ}
_SASL = (m.ApiVersionsResponse, m.SaslHandshakeResponse, m.SaslAuthenticateResponse)


def _row(user: str, mechanism: ScramMechanism, password: str) -> CredentialRow:
    made = scram.credential_of(mechanism, password, _SALT, MIN_ITERATIONS)
    return CredentialRow(user, mechanism, MIN_ITERATIONS, _SALT, made.stored_key, made.server_key)


class Tokens:
    """An authorization server whose key never changes, so that a run can be repeated."""

    def __init__(self, seed: bytes = bytes(32)) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._key = Ed25519PrivateKey.from_private_bytes(seed)

    def key_set(self) -> str:
        x = base64.urlsafe_b64encode(self._key.public_key().public_bytes_raw()).rstrip(b"=").decode()
        return json.dumps({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "1", "x": x}]})

    def token(self, user: str, until: int = _TOKENS_UNTIL) -> str:
        import jwt

        claims = {"sub": user, "iat": _TOKENS_FROM, "exp": until}
        return jwt.encode(claims, self._key, algorithm="EdDSA", headers={"kid": "1"})


def with_token(token: str) -> dict[str, Any]:
    async def provide() -> Token:
        return Token(token, _TOKENS_UNTIL)

    return {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": provide}


def with_password(user: str, password: str, mechanism: str) -> dict[str, Any]:
    return {"sasl_mechanism": mechanism, "sasl_username": user, "sasl_password": password}


def _before(process: Process, now: float, seconds: float) -> float:
    """When a process that has stood still had run for some seconds less."""
    for paused, resumed in reversed(process.pauses):
        if resumed > now - seconds:
            seconds += resumed - paused
    return now - seconds


class LoggedIn(Scenario):
    """A load on listeners with SASL, among users and rules that change."""

    late_seconds = 0.0
    """How late a broker that holds its lease may hear of a change."""
    changes = 30
    """How many changes there are."""
    visits = 0
    """How many records visitors have sent."""

    # -- what there is at the beginning --------------------------------------------------------------------------------

    @classmethod
    def security_protocol(cls, seed: int) -> SecurityProtocol:
        return (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)[seed // len(_MECHANISMS) % 2]

    @classmethod
    def configs(cls, seed: int) -> dict[str, str]:
        protocol = cls.security_protocol(seed)
        return {
            **super().configs(seed),
            **(pem().configs(protocol.value) if protocol.has_tls else {}),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{_ADMIN}",
            "sasl.enabled.mechanisms": ",".join(_MECHANISMS),
            "connections.max.reauth.ms": str(1_200 + 500 * (seed % 5)),
        }

    def before_start(self) -> None:
        super().before_start()
        self._compute_once()
        self._context = pem().context()
        self.tokens = Tokens()
        self._publish_keys()
        scrams = tuple(ScramMechanism)
        self.mechanisms = {user: scrams[(self.seed + at) % 2] for at, user in enumerate((*_GUESTS, _APPLICATION))}
        """For which a credential of each user is kept."""
        self.passwords = {user: Setting(f"the password of {user}", f"first of {user}") for user in self.mechanisms}
        self.rules = {(user, what): Setting(f"whether {user} may {what}", _NO) for user in _GUESTS for what in _RULES}
        rows = [_row(user, self.mechanisms[user], each.changes[0].value) for user, each in self.passwords.items()]
        always = [_row(user, ScramMechanism.SCRAM_SHA_512, f"of {user}") for user in (_SERVICE, _ADMIN)]
        always.append(_row(_SERVICE, ScramMechanism.SCRAM_SHA_256, f"of {_SERVICE}"))
        self.catalog.change_credentials([*rows, *always], [])
        self.catalog.change_acls(self._first_rules(), [])
        mechanism = _MECHANISMS[self.seed % len(_MECHANISMS)]
        is_token = mechanism == "OAUTHBEARER"
        login = (
            with_token(self.tokens.token(_SERVICE))
            if is_token
            else with_password(_SERVICE, f"of {_SERVICE}", mechanism)
        )
        self.world.login = self.settings(login)
        self.administrator = self.settings(with_password(_ADMIN, f"of {_ADMIN}", "SCRAM-SHA-512"))

    def _compute_once(self) -> None:
        """The same password costs milliseconds each time, which nobody in the world notices."""
        salted_password = scram.salted_password
        scram.salted_password = lru_cache(_PASSWORDS_KEPT)(salted_password)
        self.world.over.callback(setattr, scram, "salted_password", salted_password)

    def settings(self, login: Mapping[str, Any]) -> dict[str, Any]:
        """Of a client that logs in."""
        protocol = self.world.protocol
        tls = {"ssl_context": self._context} if protocol.has_tls else {}
        return {"security_protocol": protocol.value.lower(), **tls, **login}

    def _publish_keys(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.world.over.callback(folder.cleanup)
        keys = Path(folder.name) / "keys.json"
        keys.write_text(self.tokens.key_set())
        for node in self.world.nodes:
            node.configs["sasl.oauthbearer.jwks.endpoint.url"] = keys.as_uri()

    def _first_rules(self) -> list[AclBinding]:
        everything = [
            AclBinding(kind, name, f"User:{_SERVICE}", AclOperation.ALL)
            for kind, name in (
                (AclResource.CLUSTER, CLUSTER_NAME),
                (AclResource.TOPIC, "*"),
                (AclResource.GROUP, "*"),
                (AclResource.TRANSACTIONAL_ID, "*"),
            )
        ]
        writes = AclBinding(AclResource.TOPIC, TOPIC, f"User:{_APPLICATION}", AclOperation.WRITE)
        describes = [AclBinding(AclResource.TOPIC, TOPIC, f"User:{user}", AclOperation.DESCRIBE) for user in _GUESTS]
        return [*everything, writes, *describes]

    # -- the story -----------------------------------------------------------------------------------------------------

    async def load(self) -> None:
        self.is_over = False
        guests = [
            self.world.spawn(f"{user}-{number}", self._visit, f"{user}-{number}", user)
            for user in (*_GUESTS, _ROBOT)
            for number in range(_VISITORS if user != _ROBOT else 1)
        ]
        programs = [
            self.world.spawn("applicant", self._apply),
            self.world.spawn("stranger", self._intrude),
        ]
        administration = self.world.spawn("administrator", self._administrate)
        await super().load()
        await administration.task
        self.is_over = True
        await asyncio.gather(*(each.task for each in (*guests, *programs)))

    async def finish(self) -> None:
        await self._look_at_users()
        await super().finish()

    # -- who may what --------------------------------------------------------------------------------------------------

    def is_excused(self, node: Node) -> bool:
        """Whether a broker may act by what was so long ago."""
        return False

    def judge(
        self, node: Node, setting: Setting, since: float, check: str, what: str, fits: Callable[[str], bool]
    ) -> None:
        """A broker has acted as if a setting had, at some time since then, a value that fits."""
        if self.is_excused(node):
            return
        now = self.world.loop.time()
        possible = setting.may_be(max(since - self.late_seconds, 0.0), now)
        if not any(map(fits, possible)):
            shown = " or ".join(each or "none" for each in possible)
            self.find(check, f"at {round(now * 1000)} {what}, and {setting.name} was {shown}")

    # -- the administrator ---------------------------------------------------------------------------------------------

    async def _administrate(self) -> None:
        chance = random.Random(f"administrator of {self.seed}")
        for number in range(self.changes):
            await asyncio.sleep(chance.uniform(0, 0.4))
            if chance.random() < 0.6:
                setting = self.passwords[chance.choice(list(self.passwords))]
                is_removal = setting.changes[-1].value != _NONE and chance.random() < 0.35
                await self._change(setting, _NONE if is_removal else f"{number}th", chance)
            else:
                await self._change(self.rules[chance.choice(list(self.rules))], chance.choice([_YES, _NO]), chance)

    async def _change(self, setting: Setting, value: str, chance: random.Random) -> None:
        sent = self.world.loop.time()
        setting.changed(value, sent)
        node = chance.choice(self.world.nodes)
        try:
            client = await RawClient.connect(
                self.world, "administrator", address=node.address, login=self.administrator
            )
            sent = self.world.loop.time()
            error = await self._carry_out(client, setting, value)
            client.close()
        except Lost:
            self.world.tell("administrator", f"does not know whether {setting.name} is {value or 'none'}")
            return
        if error in (0, ErrorCode.RESOURCE_NOT_FOUND):
            setting.changes.pop()
        if error == 0:
            setting.changed(value, sent, self.world.loop.time())
            self.figures["changes of users" if setting in self.passwords.values() else "changes of rules"] += 1
        self.world.tell("administrator", f"{setting.name} is {value or 'none'}, by {node.name}: error {error}")

    async def _carry_out(self, client: RawClient, setting: Setting, value: str) -> int:
        """Returns the error code."""
        for user, each in self.passwords.items():
            if each is setting:
                return await self._change_user(client, user, value)
        [(user, what)] = [key for key, each in self.rules.items() if each is setting]
        kind, pattern, principal = AclResource.TOPIC, PatternType.LITERAL, f"User:{user}"
        operation, permission = _RULES[what], AclPermission.ALLOW
        if value == _YES:
            created = m.CreateAclsRequest.AclCreation(kind, TOPIC, pattern, principal, "*", operation, permission)
            creation = await client.ask(m.CreateAclsRequest([created]), m.CreateAclsResponse)
            return int(creation.results[0].error_code)
        deleted = m.DeleteAclsRequest.DeleteAclsFilter(kind, TOPIC, pattern, principal, "*", operation, permission)
        deletion = await client.ask(m.DeleteAclsRequest([deleted]), m.DeleteAclsResponse)
        return int(deletion.filter_results[0].error_code)

    async def _change_user(self, client: RawClient, user: str, password: str) -> int:
        request, mechanism = m.AlterUserScramCredentialsRequest, self.mechanisms[user]
        if password == _NONE:
            body = request(deletions=[request.ScramCredentialDeletion(user, mechanism)])
        else:
            salted = scram.salted_password(mechanism, password, _SALT, MIN_ITERATIONS)
            upsertion = request.ScramCredentialUpsertion(user, mechanism, MIN_ITERATIONS, _SALT, salted)
            body = request(upsertions=[upsertion])
        answer = await client.ask(body, m.AlterUserScramCredentialsResponse)
        return int(answer.results[0].error_code)

    # -- visitors ------------------------------------------------------------------------------------------------------

    def home(self, partition: int) -> Node:
        """Whose broker leads a partition."""
        return self.world.nodes[0]

    async def _visit(self, name: str, user: str) -> None:
        chance = random.Random(f"{name} of {self.seed}")
        while not self.is_over:
            await asyncio.sleep(chance.uniform(0, 0.2))
            partition = chance.randrange(PARTITIONS)
            node = self.home(partition) if chance.random() < 0.4 else chance.choice(self.world.nodes)
            visit = _Visit(self, name, user, node, partition, chance)
            try:
                await visit.make()
            except Lost:
                await asyncio.sleep(_RETRY_SECONDS)
            finally:
                visit.end()

    async def _apply(self) -> None:
        """A producer of `penstock.client`, with each password of its user."""
        user, setting, number = _APPLICATION, self.passwords[_APPLICATION], 0
        chance = random.Random(f"applicant of {self.seed}")
        mechanism = chance.choice([self.mechanisms[user].sasl_name, "PLAIN"])
        while not self.is_over:
            await asyncio.sleep(0.1)
            password, since = setting.changes[-1].value, self.world.loop.time()
            if password == _NONE:
                continue
            settings: dict[str, Any] = access(self.world) | with_password(user, password, mechanism)
            settings.pop("sasl_oauth_token_provider", None)
            try:
                producer = Producer(**settings, request_timeout_ms=2_000, delivery_timeout_ms=30_000)
                async with producer:
                    while not self.is_over and setting.changes[-1].value == password:
                        number += 1
                        await self._send(producer, f"applicant-{number}", chance)
            except AuthenticationFailed as error:
                self.figures["producers refused"] += 1
                self.world.tell("applicant", f"is refused: {error}")
                node = next((each for each in self.world.nodes if each.name in str(error)), self.world.nodes[0])
                what = f"a producer with the password {password} was refused: {error}"
                self.judge(node, setting, since, "refused", what, lambda each: each != password)  # noqa: B023
            except KafkaError as error:
                self.world.tell("applicant", f"begins anew: {error!r}")

    async def _send(self, producer: Producer, value: str, chance: random.Random) -> None:
        partition = chance.randrange(PARTITIONS)
        sent = {"process": "applicant", "topic": TOPIC, "partition": partition, "value": value}
        try:
            record = await producer.send_and_wait(TOPIC, value, partition=partition)
        except KafkaError:
            self.history.add("send", **sent, result="unknown")
            raise
        self.history.add("send", **sent, result="ok", offset=record.offset)
        await asyncio.sleep(chance.uniform(0, 0.2))

    async def _intrude(self) -> None:
        """Requests of somebody who has not logged in."""
        chance = random.Random(f"stranger of {self.seed}")
        while not self.is_over:
            await asyncio.sleep(chance.uniform(0.1, 0.6))
            node = chance.choice(self.world.nodes)
            request: m.Message = produce_request(0, "stranger", -1)
            response: type[m.Message] = m.ProduceResponse
            if chance.random() < 0.5:
                request, response = m.MetadataRequest(topics=None), m.MetadataResponse
            try:
                client = await RawClient.connect(self.world, "stranger", address=node.address, login={})
                await client.ask(request, response)
            except Lost:
                self.figures["strangers turned away"] += 1
                continue
            self.find("let-in", f"{node.name} has answered {response.__name__} to somebody who has not logged in")

    # -- the end -------------------------------------------------------------------------------------------------------

    async def _look_at_users(self) -> None:
        """Each broker takes the same password of each user, and no other one."""
        self.late_seconds = 0.0
        for user, setting in self.passwords.items():
            possible = setting.may_be(self.world.loop.time(), self.world.loop.time())
            earlier = [each.value for each in setting.changes if each.value not in possible][-2:]
            taken: set[str] = set()
            for node in self.world.nodes:
                its_own = [each for each in possible if each and await self._is_taken(node, user, each)] or [_NONE]
                taken.update(its_own)
                if len(its_own) > 1 or its_own[0] not in possible:
                    self.find("not-agreed", f"{node.name} takes {its_own} of {user}, which may be {possible}")
                for password in earlier:
                    if password and await self._is_taken(node, user, password):
                        self.find("let-in", f"{node.name} takes {password} of {user} in the end, {possible} are left")
            if len(taken) > 1:
                self.find("not-agreed", f"brokers take {sorted(taken)} of {user}")

    async def _is_taken(self, node: Node, user: str, password: str) -> bool:
        login = self.settings(with_password(user, password, self.mechanisms[user].sasl_name))
        try:
            client = await RawClient.connect(self.world, "last", address=node.address, login=login)
        except Refused:
            return False
        client.close()
        return True


class _Visit:
    """A connection of somebody who logs in, stays for a while, and may authenticate again."""

    def __init__(
        self, scenario: LoggedIn, name: str, user: str, node: Node, partition: int, chance: random.Random
    ) -> None:
        self._scenario = scenario
        self._world = scenario.world
        self._name = name
        self._user = user
        self._node = node
        self._partition = partition
        self._chance = chance
        self._password = _NONE
        self._is_impostor = False
        self._began_at = 0.0
        self._until = 0.0
        """When the session ends, as the broker has said."""
        self._asked_at = 0.0
        self._client: RawClient | None = None
        self._mechanism = chance.choice(["SCRAM", "PLAIN"])

    async def make(self) -> None:
        scenario, chance = self._scenario, self._chance
        client = self._client = await RawClient.connect(
            self._world, self._name, self._answered, address=self._node.address, login={}
        )
        self._process = self._node.process if self._node.is_serving else None
        if not await self._log_in(client):
            return
        forgets = chance.random() < _FORGETFUL
        for _ in range(chance.randint(1, 16)):
            await asyncio.sleep(chance.uniform(0, 0.5))
            if scenario.is_over:
                return
            is_late = self._world.loop.time() > self._until - 0.7
            if is_late and not forgets and not await self._log_in(client):
                return
            await self._use(client)
        if forgets:
            await asyncio.sleep(max(0.0, self._until - self._world.loop.time()) + _RETRY_SECONDS)
            await self._use(client)

    def end(self) -> None:
        if self._client is not None:
            self._client.close()

    # -- logins --------------------------------------------------------------------------------------------------------

    async def _log_in(self, client: RawClient) -> bool:
        """Whether the broker lets the client in."""
        if self._user == _ROBOT:
            return await self._show_token(client)
        scenario, user = self._scenario, self._user
        if self._password and self._chance.random() < _IMPOSTORS:
            return await self._pose_as_another(client)
        setting = scenario.passwords[user]
        password = self._choose(setting)
        mechanism = scenario.mechanisms[user].sasl_name if self._mechanism == "SCRAM" else "PLAIN"
        sent = self._began_at = self._world.loop.time()
        before, self._password = self._password, password
        try:
            await client.log_in(scenario.settings(with_password(user, password, mechanism)))
        except Refused as error:
            scenario.figures["logins refused"] += 1
            what = f"{self._node.name} refused {self._name} with the password {password}: {error}"
            if not self._is_too_soon(error):
                scenario.judge(self._node, setting, sent, "refused", what, lambda each: each != password)
            return False
        scenario.figures["sessions renewed" if before else "logins"] += 1
        return True

    async def _pose_as_another(self, client: RawClient) -> bool:
        """A session stays that of its user, whoever's password is shown."""
        self._is_impostor = True
        [other] = [each for each in _GUESTS if each != self._user]
        password = self._scenario.passwords[other].changes[-1].value or _NEVER_ISSUED
        mechanism = self._scenario.mechanisms[other].sasl_name if self._mechanism == "SCRAM" else "PLAIN"
        try:
            await client.log_in(self._scenario.settings(with_password(other, password, mechanism)))
        except Refused:
            self._scenario.figures["impostors refused"] += 1
        return False

    def _is_too_soon(self, error: Refused) -> bool:
        """Brokers refuse it within a second of the last time, as Kafka does."""
        return "authenticates nobody" in str(error)

    def _choose(self, setting: Setting) -> str:
        past = [each for each in setting.ever() if each != _NONE]
        kind = self._chance.random()
        if kind < 0.1 or not past:
            return _NEVER_ISSUED
        return self._chance.choice(past) if kind < 0.35 else past[-1]

    async def _show_token(self, client: RawClient) -> bool:
        scenario = self._scenario
        kind = self._chance.choice(["good", "good", "expired", "forged"])
        until = _LONG_AGO if kind == "expired" else _TOKENS_UNTIL
        tokens = Tokens(b"\x01" * 32) if kind == "forged" else scenario.tokens
        try:
            await client.log_in(scenario.settings(with_token(tokens.token(_ROBOT, until))))
        except Refused as error:
            scenario.figures["tokens refused"] += 1
            if kind == "good" and not self._is_too_soon(error):
                scenario.find("refused", f"{self._node.name} refused a good token: {error}")
            return False
        scenario.figures["tokens taken"] += 1
        if kind != "good":
            scenario.find("let-in", f"{self._node.name} took a token that is {kind}")
        return True

    # -- requests ------------------------------------------------------------------------------------------------------

    async def _use(self, client: RawClient) -> None:
        scenario, name, index = self._scenario, self._name, self._partition
        self._asked_at = sent_at = self._world.loop.time()
        if self._chance.random() < 0.5:
            fetched = await client.ask(
                fetch_request({index: 1 << 40}, 0, self._chance.choice([0, 500])), m.FetchResponse, 12
            )
            self._judge("read", fetched.responses[0].partitions[0].error_code, sent_at)
            return
        scenario.visits += 1
        value = f"{name}-{scenario.visits}"
        sent = {"process": name, "topic": TOPIC, "partition": index, "value": value}
        try:
            answer = await client.ask(produce_request(index, value, -1), m.ProduceResponse, 12)
        except Lost:
            scenario.history.add("send", **sent, result="unknown")
            raise
        [result] = answer.responses[0].partition_responses
        if result.error_code == 0:
            scenario.history.add("send", **sent, result="ok", offset=result.base_offset)
        else:
            is_denied = result.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            scenario.history.add("send", **sent, result="failed" if is_denied else "unknown")
        self._judge("write", result.error_code, sent_at)

    def _judge(self, what: str, error: int, sent_at: float) -> None:
        if error not in (0, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            return
        seen = _NO if error == ErrorCode.TOPIC_AUTHORIZATION_FAILED else _YES
        text = f"{self._name} was {seen} to {what} by {self._node.name}"
        self._scenario.figures[f"times it was {seen}"] += 1
        if self._user != _ROBOT:
            rule = self._scenario.rules[self._user, what]
            self._scenario.judge(self._node, rule, sent_at, "not-obeyed", text, lambda each: each == seen)
        elif seen == _YES:
            self._scenario.find("not-obeyed", text)

    def _answered(self, answer: m.Message) -> None:
        """The broker gives an answer: it must still hold the session for a good one."""
        now, scenario = self._world.loop.time(), self._scenario
        if isinstance(answer, _SASL):
            if isinstance(answer, m.SaslAuthenticateResponse) and answer.session_lifetime_ms:
                self._let_in(now + answer.session_lifetime_ms / 1000)
            return
        if self._asked_at > self._until:
            late_ms = round((self._asked_at - self._until) * 1000)
            scenario.find("outlived", f"{self._name} was answered, {late_ms} ms after its session was over")
        if self._user == _ROBOT or self._process is None:
            return
        password = self._password
        what = f"{self._node.name} answered {self._name}, who had logged in with the password {password}"
        since = _before(self._process, now, _ENDED_SECONDS)
        setting = scenario.passwords[self._user]
        scenario.judge(self._node, setting, since, "not-ended", what, lambda each: each == password)

    def _let_in(self, until: float) -> None:
        """Whether the client believes it or not."""
        self._until = until
        if self._user != _ROBOT:
            scenario, password = self._scenario, self._password
            if self._is_impostor:
                scenario.find("let-in", f"{self._node.name} let {self._name} go on as somebody else")
                return
            what = f"{self._node.name} let {self._name} in with the password {password}"
            setting = scenario.passwords[self._user]
            scenario.judge(self._node, setting, self._began_at, "let-in", what, lambda each: each == password)


class Logins(LoggedIn, Streams):
    """`streams` on a listener with SASL (SCRAM-SHA-256, SCRAM-SHA-512, PLAIN and OAUTHBEARER by turns), four seeds
    without TLS and four with it. Users come, go and get other passwords, rules change, and sessions end and are
    renewed."""

    name = "logins"


class LoggedInTransactions(LoggedIn, Transactions):
    """`transactions` among the users of `logins`."""

    name = "logins-transactions"


class LoggedInQueues(LoggedIn, Queues):
    """`queues` among the users of `logins`."""

    name = "logins-queues"

    async def prepare(self) -> None:
        await super().prepare()
        await self.create_topic(TOPIC, PARTITIONS)
