"""Mutants of logins: who gets in, as whom, and for how long."""

from __future__ import annotations

from penstock.broker.authentication import Authentication, Authenticator
from penstock.broker.credentials import Users
from penstock.broker.gate import Gate
from penstock.security import oauthbearer, scram
from tests.simulation.cluster_logins import ClusterLogins
from tests.simulation.logins import Logins
from tests.simulation.mutant import Mutant

LOGINS = [
    Mutant(
        "sessions-outlive-their-users",
        "the sessions of a user who was removed, or has another password, go on",
        Logins,
        Authenticator,
        "_end_sessions",
        "",
        "",
    ),
    Mutant(
        "old-password-stays",
        "a changed password is confirmed, and the old one is taken until the next start",
        Logins,
        Users,
        "change",
        "self._credentials[row.user, ScramMechanism(row.mechanism)] = credential",
        "self._credentials.setdefault((row.user, ScramMechanism(row.mechanism)), credential)",
    ),
    Mutant(
        "user-not-written",
        "a change of a user is confirmed and never written down",
        Logins,
        Users,
        "change",
        "found = self._catalog.change_credentials(upserted, keys)",
        "found = frozenset(keys)",
    ),
    Mutant(
        "any-password",
        "the proof of a client is not looked at",
        Logins,
        scram.ScramServer,
        "_check",
        "if not hmac.compare_digest(_hash(mechanism, client_key), credential.stored_key):",
        "if False:",
    ),
    Mutant(
        "expired-tokens",
        "a token is taken although it has expired",
        Logins,
        oauthbearer,
        "check_claims",
        "if now - skew >= expires_at:",
        "if False:",
    ),
    Mutant(
        "sessions-without-end",
        "a session goes on although its client has not authenticated again in time",
        Logins,
        Authentication,
        "_handle_until_expiry",
        "if self._world.monotonic() < self._expires_at or",
        "if True or",
    ),
    Mutant(
        "requests-before-the-login",
        "the requests of a client that has not logged in are carried out",
        Logins,
        Authentication,
        "handle",
        'self._close("it sent another request than SASL allows")',
        "self._owner.dispatcher.handle(connection, frame)",
    ),
    Mutant(
        "rules-of-somebody-else",
        "what somebody may do is decided by the rules for whoever was looked up first",
        Logins,
        Gate,
        "allows",
        "if authorizer.allows(connection.principal, connection",
        "if authorizer.allows(self.__dict__.setdefault('whoever', connection.principal), connection",
    ),
    Mutant(
        "somebody-else-goes-on",
        "a client may authenticate again as another user",
        Logins,
        Authentication,
        "_take",
        "elif self._principal is not None and self._principal.name != step.user:",
        "elif False:",
    ),
    Mutant(
        "users-of-others-unseen",
        "a broker does not hear of users that another one has changed",
        ClusterLogins,
        Users,
        "reload",
        "",
        "",
    ),
]
