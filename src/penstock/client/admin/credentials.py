"""Users and their passwords: SCRAM credentials (KIP-554).

A password never leaves this process. What is sent is the password salted and iterated, which is enough to log in to
this cluster and no other: send it over TLS.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.client.admin.base import AdminPart, Outcome
from penstock.client.errors import UsageError, check, kafka_error
from penstock.security.scram import MIN_ITERATIONS, ScramMechanism, salted_password
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode

_SALT_BYTES = 24


class ScramCredentialInfo(NamedTuple):
    """What a broker tells of a credential: never the password, nor anything to guess it from."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """Sets the password of a user for one mechanism. A salt is made up unless one is given."""

    user: str
    password: str = field(repr=False)
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512
    iterations: int = MIN_ITERATIONS
    """The default is that of Kafka's tools: where users have different ones, they can be told from made-up ones."""
    salt: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """Deletes the password of a user for one mechanism."""

    user: str
    mechanism: ScramMechanism


class Credentials(AdminPart):
    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> dict[str, tuple[ScramCredentialInfo, ...]]:
        """The mechanisms and iterations of every user, or of those of `users` that have a credential."""
        named = m.DescribeUserScramCredentialsRequest.UserName
        named_users = None if users is None else [named(name=name) for name in dict.fromkeys(users)]
        if named_users is not None and not named_users:
            return {}
        answer = await self.cluster.call(
            m.DescribeUserScramCredentialsRequest(users=named_users),
            m.DescribeUserScramCredentialsResponse,
            check_answer=lambda answer: check(answer.error_code, answer.error_message),
        )
        found: dict[str, tuple[ScramCredentialInfo, ...]] = {}
        for result in answer.results:
            if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
                continue
            check(result.error_code, result.error_message, f"user {result.user!r}")
            found[result.user] = tuple(
                ScramCredentialInfo(ScramMechanism(info.mechanism), info.iterations) for info in result.credential_infos
            )
        return dict(sorted(found.items()))

    async def alter_user_scram_credentials(
        self, upsertions: Iterable[ScramUpsertion] = (), deletions: Iterable[ScramDeletion] = ()
    ) -> Outcome:
        """Set and delete passwords; returns an error or None for each user.

        Kafka takes one change of a user in a request: what is wanted for several mechanisms is sent one after another,
        as far as nothing goes wrong.
        """
        rounds: list[m.AlterUserScramCredentialsRequest] = []
        changes: Counter[str] = Counter()

        def request_for(user: str) -> m.AlterUserScramCredentialsRequest:
            number = changes[user]
            changes[user] += 1
            if number == len(rounds):
                rounds.append(m.AlterUserScramCredentialsRequest(deletions=[], upsertions=[]))
            return rounds[number]

        for deletion in deletions:
            request_for(deletion.user).deletions.append(_deletion(deletion))
        for upsertion in upsertions:
            request_for(upsertion.user).upsertions.append(await asyncio.to_thread(_salted, upsertion))
        if not rounds:
            raise UsageError("alter_user_scram_credentials got nothing to change")
        outcome: Outcome = dict.fromkeys(changes)
        for request in rounds:
            request.deletions = [each for each in request.deletions if outcome[each.name] is None]
            request.upsertions = [each for each in request.upsertions if outcome[each.name] is None]
            if not request.deletions and not request.upsertions:
                break
            answer = await self.cluster.call_controller(request, m.AlterUserScramCredentialsResponse)
            for result in answer.results:
                if result.error_code:
                    about = f"user {result.user!r}"
                    outcome[result.user] = kafka_error(result.error_code, result.error_message, about)
        return outcome


def _deletion(deletion: ScramDeletion) -> m.AlterUserScramCredentialsRequest.ScramCredentialDeletion:
    return m.AlterUserScramCredentialsRequest.ScramCredentialDeletion(
        name=deletion.user, mechanism=int(deletion.mechanism)
    )


def _salted(upsertion: ScramUpsertion) -> m.AlterUserScramCredentialsRequest.ScramCredentialUpsertion:
    salt = secrets.token_bytes(_SALT_BYTES) if upsertion.salt is None else upsertion.salt
    return m.AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=upsertion.user,
        mechanism=int(upsertion.mechanism),
        iterations=upsertion.iterations,
        salt=salt,
        salted_password=salted_password(upsertion.mechanism, upsertion.password, salt, upsertion.iterations),
    )
