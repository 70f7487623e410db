"""Client quotas and SCRAM credentials: setting, asking, taking away, and every way to ask wrongly."""

from __future__ import annotations

from ..conversation import Conversation
from ..kio_codec import Json
from . import scenario

SHA_256 = 1
SHA_512 = 2


@scenario("alter_client_quotas")
def alter_client_quotas(talk: Conversation) -> None:
    user = talk.name("user")

    def alter(note: str, entity: list[Json], *ops: Json, validate_only: bool = False) -> bool:
        entry = {"entity": entity, "ops": list(ops)}
        body = {"entries": [entry], "validate_only": validate_only}
        answer = talk.send("alter_client_quotas", body, note=note)
        return bool(answer) and answer["entries"][0]["error_code"] == "NONE"

    def describe(note: str, settled: int | None = None) -> None:
        """Asks; first waits for the number of entries that an alteration which was accepted must lead to."""
        one = {"entity_type": "user", "match_type": 0, "match": user}
        body = {"components": [one], "strict": False}
        if settled is not None:
            talk.until(lambda answer: len(answer["entries"]) == settled, "describe_client_quotas", body, talk.version)
        talk.send("describe_client_quotas", body, note=note)

    def set_to(key: str, value: float) -> Json:
        return {"key": key, "value": value, "remove": False}

    def remove(key: str) -> Json:
        return {"key": key, "value": 0.0, "remove": True}

    mine = [{"entity_type": "user", "entity_name": user}]
    alter("removes what is not set", mine, remove("producer_byte_rate"))
    alter("only tries", mine, set_to("producer_byte_rate", 1000.0), validate_only=True)
    describe("nothing is set")
    accepted = alter("sets one", mine, set_to("producer_byte_rate", 1000.0))
    describe("one is set", settled=1 if accepted else None)
    alter("takes it away", mine, remove("producer_byte_rate"))
    describe("nothing is left", settled=0)
    alter("unknown quota", mine, set_to("no_such_rate", 1.0))
    alter("negative", mine, set_to("producer_byte_rate", -1.0))
    alter("not a whole number", mine, set_to("producer_byte_rate", 1.5))
    alter("unknown kind of entity", [{"entity_type": "planet", "entity_name": "earth"}], set_to("request_rate", 1.0))
    alter("of nobody", [], set_to("request_percentage", 1.0))
    alter("a quota of addresses for a user", mine, set_to("connection_creation_rate", 1.0))
    alter("changes nothing", mine)
    address = [{"entity_type": "ip", "entity_name": "not an address at all"}]
    alter("not an address", address, set_to("connection_creation_rate", 1.0))
    empty = [{"entity_type": "user", "entity_name": ""}]
    alter("empty name", empty, set_to("producer_byte_rate", 1.0))
    twice = [*mine, {"entity_type": "user", "entity_name": "another"}]
    alter("two users at once", twice, set_to("producer_byte_rate", 1.0))
    talk.send("alter_client_quotas", {"entries": [], "validate_only": False}, note="nothing")


@scenario("alter_user_scram_credentials")
def alter_user_scram_credentials(talk: Conversation) -> None:
    user = talk.name("user")

    def upsert(note: str, *upsertions: Json, deletions: tuple[Json, ...] = ()) -> bool:
        body = {"deletions": list(deletions), "upsertions": list(upsertions)}
        answer = talk.send("alter_user_scram_credentials", body, note=note)
        return bool(answer) and answer["results"][0]["error_code"] == "NONE"

    def one(name: str = user, mechanism: int = SHA_256, iterations: int = 4096) -> Json:
        secrets = {"salt": b"salt", "salted_password": b"password"}
        return {"name": name, "mechanism": mechanism, "iterations": iterations, **secrets}

    def describe(note: str, settled: str | None) -> None:
        body = {"users": [{"name": user}]}
        if settled is not None:
            talk.until(
                lambda a: a["results"][0]["error_code"] == settled, "describe_user_scram_credentials", body, version=0
            )
        talk.send("describe_user_scram_credentials", body, version=0, note=note)

    gone = {"name": user, "mechanism": SHA_256}
    upsert("deletes what is not there", deletions=(gone,))
    upsert("unknown mechanism", one(mechanism=9))
    upsert("deletes by an unknown mechanism", deletions=({"name": user, "mechanism": 9},))
    upsert("too few iterations", one(iterations=100))
    upsert("too many iterations", one(iterations=1_000_000))
    upsert("empty name", one(name=""))
    upsert("the same twice", one(), one())
    upsert("sets and deletes the same", one(), deletions=(gone,))
    accepted = upsert("sets one", one())
    describe("one is set", settled="NONE" if accepted else None)
    upsert("deletes it", deletions=(gone,))
    describe("nothing is left", settled="RESOURCE_NOT_FOUND")
    talk.send("alter_user_scram_credentials", {"deletions": [], "upsertions": []}, note="nothing")
