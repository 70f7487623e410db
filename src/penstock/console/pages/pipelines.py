"""Pipelines: the runs that `penstock pipeline run` and `penstock load` have noted in their folder of histories.

The folder is of the machine that the console runs on. Brokers know nothing of it, so it is shown to users to whom they
grant DESCRIBE on the cluster. Of each history the end is read, however long it has become.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request

from penstock.console.web import Page, name_in, page, session_of, web_of

NAVIGATION = [("/pipelines", "Pipelines", "p")]
_MOST_PIPELINES = 200
_MOST_RUNS = 200
_TAIL_BYTES = 256 << 10
_HISTORY = "history.jsonl"
_FIELDS = ("started", "seconds", "rows", "bytes", "files", "tasks", "lag_before", "lag_after", "error")

Run = dict[str, object]


async def pipelines(request: Request) -> Page:
    folder = web_of(request).pipelines
    may_look = await session_of(request).monitoring.may_look()
    found = await asyncio.to_thread(read_histories, folder, 1) if may_look else {}
    rows = [{"pipeline": name, **runs[-1]} for name, runs in found.items() if runs]
    rows.sort(key=lambda row: str(row["started"]), reverse=True)
    return Page("pipelines.html", {"pipelines": rows, "may_look": may_look}, 2.0, extra={"folder": str(folder)})


async def pipeline(request: Request) -> Page:
    name = name_in(request)
    may_look = await session_of(request).monitoring.may_look()
    found = await asyncio.to_thread(read_histories, web_of(request).pipelines, _MOST_RUNS) if may_look else {}
    if name not in found:
        raise HTTPException(404, f"No runs of a pipeline {name} are noted, or your user may not describe the cluster.")
    return Page("pipeline.html", {"pipeline": name, "runs": found[name][::-1]}, 2.0)


def read_histories(folder: Path, most: int) -> dict[str, list[Run]]:
    """The last runs of every pipeline, by its name, the newest at the end."""
    found: dict[str, list[Run]] = {}
    for path in sorted(folder.glob(f"*/{_HISTORY}"))[:_MOST_PIPELINES]:
        runs = _runs(path)
        if runs:
            found[str(runs[-1]["pipeline"])] = runs[-most:]
    return found


def _runs(path: Path) -> list[Run]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            lines = file.read().splitlines()[1 if size > _TAIL_BYTES else 0 :]
    except OSError:
        return []
    runs = []
    for line in lines:
        try:
            fields = json.loads(line)
            runs.append({"pipeline": str(fields["pipeline"]), **{name: fields.get(name) for name in _FIELDS}})
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # half a line, of a run that is being noted
    return runs


ROUTES = [*page("/pipelines/{name}", pipeline), *page("/pipelines", pipelines)]
