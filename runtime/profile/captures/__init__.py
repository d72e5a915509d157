"""One picture of all processes: what they compute, wait for, are at and hold, from any process of the same user.

It asks (see `presence`) and merges. It does not measure, but for stacks (`snapshot`), and knows no format.
Reading order: `snapshot` and `live` (stacks), `holdings` (what is held), `graph` with `graph_here` and `graph_engine`
(who waits for whom), `others` (processes that are none of ours), `capture` (all of that), `inside` (`rt.profile`).
"""
