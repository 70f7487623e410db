"""Quotas and SCRAM credentials as users who may set them, read them, or neither."""

from __future__ import annotations

from ..conversation import Conversation
from ..kio_codec import Json
from . import secured_scenario

SHA_256, SHA_512 = 1, 2
USERS = ("nobody", "alice", "describer", "alterer", "config-reader", "config-writer", "outcast", "owner", "admin")


def quota(key: str, value: float | None) -> Json:
    return {"key": key, "value": value or 0.0, "remove": value is None}


@secured_scenario("alter_client_quotas")
def secured_alter_client_quotas(talk: Conversation) -> None:
    for user in USERS:
        entity = [{"entity_type": "user", "entity_name": talk.name(user)}]
        good = {"entity": entity, "ops": [quota("producer_byte_rate", 1000.0)]}
        odd = {"entity": [{"entity_type": "planet", "entity_name": "earth"}], "ops": []}
        talk.send("alter_client_quotas", {"entries": [good], "validate_only": True}, on=user, note="tries one")
        talk.send("alter_client_quotas", {"entries": [good, odd]}, on=user, note="a good one and an odd one")
        talk.send("alter_client_quotas", {"entries": []}, on=user, note="nothing")


@secured_scenario("describe_client_quotas")
def secured_describe_client_quotas(talk: Conversation) -> None:
    entity = [{"entity_type": "user", "entity_name": talk.name("u")}, {"entity_type": "client-id", "entity_name": "c"}]
    entry = {"entity": entity, "ops": [quota("producer_byte_rate", 1000.0), quota("request_percentage", 50.0)]}
    talk.quietly("alter_client_quotas", {"entries": [entry], "validate_only": False}, 1)
    mine = [{"entity_type": "user", "match_type": 0, "match": talk.name("u")}]
    talk.until(lambda a: bool(a["entries"]), "describe_client_quotas", {"components": mine, "strict": False}, 1)
    for user in USERS:
        talk.send("describe_client_quotas", {"components": mine, "strict": False}, on=user, note="one user")
        talk.send("describe_client_quotas", {"components": mine, "strict": True}, on=user, note="strictly")
    odd = [{"entity_type": "planet", "match_type": 0, "match": "earth"}]
    for user in ("nobody", "config-reader"):
        talk.send("describe_client_quotas", {"components": odd, "strict": False}, on=user, note="an odd entity")


@secured_scenario("describe_client_quotas")
def secured_quotas_of_many_entities(talk: Conversation) -> None:
    """Every kind of entity, every kind of match."""
    user, client = talk.name("u"), talk.name("c")
    entities: list[list[tuple[str, str | None]]] = [
        [("user", user)],
        [("user", user), ("client-id", client)],
        [("user", user), ("client-id", None)],
        [("client-id", client)],
    ]
    for number, entity in enumerate(entities):
        parts = [{"entity_type": kind, "entity_name": name} for kind, name in entity]
        entry = {
            "entity": parts,
            "ops": [quota("consumer_byte_rate", 1000.0 + number), quota("request_percentage", 5.0)],
        }
        talk.send("alter_client_quotas", {"entries": [entry], "validate_only": False}, note=f"sets {number}")
    exact = {"entity_type": "user", "match_type": 0, "match": user}
    both = [exact, {"entity_type": "client-id", "match_type": 0, "match": client}]
    settled = {"components": [exact], "strict": False}
    talk.until(lambda a: len(a["entries"]) == 3, "describe_client_quotas", settled, 1)

    def describe(note: str, *components: Json, strict: bool = False) -> None:
        talk.send("describe_client_quotas", {"components": list(components), "strict": strict}, note=note)

    for strict in (False, True):
        word = "strictly" if strict else "loosely"
        describe(f"the user, {word}", exact, strict=strict)
        describe(f"user and client, {word}", *both, strict=strict)
        of_default = {"entity_type": "client-id", "match_type": 1, "match": None}
        describe(f"user and default client, {word}", exact, of_default, strict=strict)
        of_any = {"entity_type": "client-id", "match_type": 2, "match": None}
        describe(f"user and any client, {word}", exact, of_any, strict=strict)
        describe(f"the client, {word}", both[1], strict=strict)
    describe("the user twice", exact, exact)
    describe("a default with a name", {"entity_type": "user", "match_type": 1, "match": "x"})
    describe("an address beside a user", exact, {"entity_type": "ip", "match_type": 0, "match": "10.0.0.1"})
    removal = [
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
            "ops": [quota("consumer_byte_rate", None), quota("request_percentage", None)],
        }
        for entity in entities
    ]
    talk.send("alter_client_quotas", {"entries": removal, "validate_only": False}, note="takes all away")
    talk.until(lambda a: not a["entries"], "describe_client_quotas", settled, 1)
    describe("nothing is left", exact)


def credential(name: str, mechanism: int = SHA_256, iterations: int = 4096, **more: Json) -> Json:
    secrets = {"salt": b"salt", "salted_password": b"password"}
    return {"name": name, "mechanism": mechanism, "iterations": iterations, **secrets, **more}


@secured_scenario("alter_user_scram_credentials")
def secured_alter_scram_credentials(talk: Conversation) -> None:
    for user in USERS:
        name = talk.name(user)
        odd = credential(talk.name("odd"), iterations=1)
        gone = {"name": talk.name("gone"), "mechanism": SHA_256}
        body = {"deletions": [gone], "upsertions": [credential(name), credential(name, SHA_512), odd]}
        talk.send("alter_user_scram_credentials", body, on=user, note="some")
        talk.send("alter_user_scram_credentials", {"deletions": [], "upsertions": []}, on=user, note="nothing")
    name = talk.name("u")
    gone = {"name": name, "mechanism": SHA_256}

    def alter(note: str, *upsertions: Json, deletions: tuple[Json, ...] = ()) -> None:
        body = {"deletions": list(deletions), "upsertions": list(upsertions)}
        talk.send("alter_user_scram_credentials", body, note=note)

    alter("no salt", credential(name, salt=b""))
    alter("no password", credential(name, salted_password=b""))
    alter("a long password", credential(name, salted_password=b"p" * 2000))
    alter("the most iterations", credential(name, iterations=16384))
    alter("one more than that", credential(name, iterations=16385))
    alter("one less than the least", credential(name, iterations=4095))
    alter("the least of the other", credential(name, SHA_512, 4096))
    alter("negative iterations", credential(name, iterations=-1))
    alter("unknown mechanism", credential(name, 0), deletions=({"name": talk.name("v"), "mechanism": 3},))
    alter("twice, both mechanisms", credential(name), credential(name, SHA_512), credential(name))
    alter("sets one mechanism and deletes the other", credential(name), deletions=({"name": name, "mechanism": 2},))
    alter("deletes twice", deletions=(gone, gone))
    alter("deletes nobody", deletions=({"name": "", "mechanism": 1},))
    alter("good beside bad", credential(talk.name("good")), credential(talk.name("bad"), iterations=1))


@secured_scenario("describe_user_scram_credentials")
def secured_describe_scram_credentials(talk: Conversation) -> None:
    name = talk.name("u")
    for one in (credential(name, SHA_512, 8192), credential(name)):
        talk.quietly("alter_user_scram_credentials", {"deletions": [], "upsertions": [one]}, 0)
    requested = {"users": [{"name": name}]}
    talk.until(
        lambda a: len(a["results"][0]["credential_infos"]) == 2, "describe_user_scram_credentials", requested, version=0
    )
    for user in USERS:
        both = {"users": [{"name": name}, {"name": talk.name("missing")}]}
        talk.send("describe_user_scram_credentials", both, on=user, note="two users")
        twice = {"users": [{"name": name}, {"name": name}]}
        talk.send("describe_user_scram_credentials", twice, on=user, note="twice the same")
        for note, users in (("all", None), ("all, an empty list", [])):
            body: dict[str, Json] = {"users": users}
            talk.send("describe_user_scram_credentials", body, on=user, note=note, mine="results")
    talk.send("describe_user_scram_credentials", {"users": [{"name": ""}]}, note="empty name")
