"""The overview: the size of the cluster, and what is wrong now."""

from __future__ import annotations

from starlette.requests import Request

from penstock.console.web import Page, page, session_of

NAVIGATION = [("/", "Overview", "o")]


async def overview(request: Request) -> Page:
    admin = await session_of(request).admin()
    cluster = await admin.describe_cluster()
    topics = await admin.list_topics()
    data: dict[str, object] = {
        "cluster": cluster.cluster_id,
        "brokers": len(cluster.nodes),
        "topics": len(topics),
        "partitions": sum(len(topic.partitions) for topic in topics),
    }
    return Page("overview.html", data, 2.0)


ROUTES = page("/", overview)
