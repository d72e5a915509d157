"""What this process holds that can leak: the ledger, one per process, always on.

It knows what is there, since when and created by which line. It does not know who looks, and judges nothing.
Reading order: `kinds` (the 22 rows), `books` (entries and counts), `sites` (places as code objects), `gauges` (what is
counted elsewhere), `tasks` and `events` (asyncio's part), `pins` (who says that a task is held on purpose).
"""
