"""Extract, transform, load: I/O and computing on pools of their own, retries, and an edge that carries no data.

    python examples/etl.py
    mainspring run examples/etl.py --report etl.html

- `fetch` waits for (pretended) servers: many at once in one asyncio worker. One server is down at first; the retry
  rule of the task takes care of it.
- `transform` computes: one at a time in each process, as many as there are cores.
- `load` writes all rows in one transaction. It may run twice if its worker dies at the wrong moment, so it replaces
  what an earlier attempt wrote.
- `report` runs after `load`, although it takes nothing from it: `after=` is an edge without data.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from runtime import Flow, NodeType, Retry, Runtime, TaskContext, TaskRegistry

SHOPS = ("north", "east", "south", "west")

tasks = TaskRegistry()
node_types = [NodeType("cpu", workers=(1, 2)), NodeType("http_call", workers=1, mode="asyncio", concurrency=200)]


@tasks.task(node_type="http_call", timeout=10.0, retry=Retry(max_attempts=3, base=0.05))
async def fetch(shop: str, context: TaskContext | None = None) -> str:
    """The sales of one shop as comma-separated text. In place of a network, a short wait."""
    await asyncio.sleep(0.05)
    if shop == "east" and context is not None and context.attempt == 1:
        raise ConnectionError("the server of shop east is down for a moment")
    return "\n".join(f"{shop},item{n % 7},{n % 5 + 1},{199 + 37 * n % 1000}" for n in range(2_000))


@tasks.task(node_type="cpu", timeout=30.0)
def transform(page: str) -> dict[str, int]:
    """Sales per item in cents."""
    totals: dict[str, int] = {}
    for line in page.splitlines():
        _, item, count, cents = line.split(",")
        totals[item] = totals.get(item, 0) + int(count) * int(cents)
    return totals


@tasks.task(node_type="cpu")
def load(database: str, per_shop: dict[str, dict[str, int]]) -> int:
    """Write everything, all or nothing; returns the number of rows."""
    rows = [(shop, item, cents) for shop, totals in per_shop.items() for item, cents in totals.items()]
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS sales (shop, item, cents, PRIMARY KEY (shop, item))")
        connection.executemany("INSERT OR REPLACE INTO sales VALUES (?, ?, ?)", rows)
    return len(rows)


@tasks.task(node_type="cpu")
def report(database: str) -> str:
    """The best-selling item of each shop."""
    query = "SELECT shop, item, MAX(cents) FROM sales GROUP BY shop ORDER BY shop"
    with closing(sqlite3.connect(database)) as connection:
        return "\n".join(f"{shop:<6} {item}  {cents / 100:10.2f}" for shop, item, cents in connection.execute(query))


def build(folder: str | None = None) -> Flow:
    """The graph.

    Args:
        folder: Where the database goes; the system's folder for temporary files by default.
    """
    database = str(Path(folder or tempfile.gettempdir()) / "mainspring-etl.sqlite")
    flow = Flow("etl")
    totals = {}
    for shop in SHOPS:
        page = flow.add(fetch, shop, id=f"fetch {shop}")
        totals[shop] = flow.add(transform, page, id=f"transform {shop}")
    loaded = flow.add(load, database, totals, id="load")
    flow.add(report, database, id="report", after=[loaded])
    return flow


def main() -> None:
    """Run it with everything in a folder that is thrown away."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Runtime(f"{folder}/state", tasks, node_types=node_types) as rt,
    ):
        print(rt.run(build(folder)).result())


if __name__ == "__main__":
    main()
