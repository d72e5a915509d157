"""The cast: pure state machines that decide. No I/O, clock, randomness or process calls.

Read `protocol` first (the words they share), then `policy` (small mechanisms), then one file per actor:
`scheduler`, `pool`, `worker`, `persister`, `supervisor`, and `core`, which composes them.
"""
