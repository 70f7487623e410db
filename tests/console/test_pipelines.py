"""The pages of pipelines, from histories in a folder."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.console.app import create_app
from penstock.console.guard import allowed_hosts
from penstock.console.pages.pipelines import read_histories
from penstock.testing.broker import Broker
from tests.console.conftest import ADDRESS, ORIGIN, Visitor, login_settings

EVIL = "<script>alert(1)</script>"


def note(folder: Path, name: str, **fields: object) -> None:
    path = folder / name / "history.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(
            json.dumps({"pipeline": name, "started": "2026-08-01T12:00:00+00:00", "seconds": 2.0, **fields}) + "\n"
        )


def test_the_last_run_of_each_pipeline_and_all_runs_of_one_are_shown(broker: Broker, tmp_path: Path) -> None:
    note(tmp_path, "orders", rows=10, lag_before=10, lag_after=0, error="")
    note(tmp_path, "orders", error=EVIL)
    app = create_app(broker.client_settings(), allowed_hosts(ADDRESS), pipelines=tmp_path)
    with Visitor(app, base_url=ORIGIN) as console:
        (row,) = console.get("/pipelines.json").json()["pipelines"]
        assert (row["pipeline"], row["error"]) == ("orders", EVIL)
        runs = console.get("/pipelines/orders.json").json()["runs"]
        assert [(run["rows"], run["lag_before"], run["lag_after"]) for run in runs] == [(None, None, None), (10, 10, 0)]
        for path in ("/pipelines", "/pipelines/orders"):
            page = console.get(path)
            assert page.status_code == 200
            assert "<script>alert" not in page.text
        assert console.get("/pipelines/none").status_code == 404


def test_histories_are_read_from_their_end_and_half_a_line_is_left_out(tmp_path: Path) -> None:
    for number in range(5_000):
        note(tmp_path, "long", rows=number, error="x" * 100)
    with (tmp_path / "long" / "history.jsonl").open("a") as file:
        file.write('{"pipeline": "lo')
    runs = read_histories(tmp_path, 200)["long"]
    assert len(runs) == 200
    assert runs[-1]["rows"] == 4_999
    assert read_histories(tmp_path / "nowhere", 1) == {}


def test_who_may_not_describe_the_cluster_sees_no_pipelines(secured: Broker, tmp_path: Path) -> None:
    note(tmp_path, "orders", rows=10)
    app = create_app(login_settings(secured), allowed_hosts(ADDRESS), pipelines=tmp_path)
    with Visitor(app, base_url=ORIGIN) as console:
        console.log_in("alice")
        assert console.get("/pipelines.json").json()["pipelines"] == []
        assert console.get("/pipelines/orders.json").status_code == 404
        console.log_in("root")
        assert len(console.get("/pipelines.json").json()["pipelines"]) == 1
