from __future__ import annotations

from penstock.queues import cells
from tests.docs.state_diagrams import NOT_DRAWN, PAGE, STEPS, page


def test_the_diagrams_are_what_the_tables_say() -> None:
    assert PAGE.read_text("utf-8") == page(), "run python -m tests.docs.state_diagrams"


def test_every_table_of_a_record_s_steps_is_drawn() -> None:
    tables = {name: value for name, value in vars(cells).items() if isinstance(value, bytes) and len(value) == 256}
    drawn = {step.table for step in STEPS}
    assert {name for name, table in tables.items() if table not in drawn} == NOT_DRAWN
