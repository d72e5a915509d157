"""Where time goes in this process, and on whose account: ticks of CPU time, looks at what waits, labels.

It knows threads, clocks and signals of its own process only. It writes no files and asks no other process.
Reading order: `labels` (on whose account), `ticks` with `pace`, `timers` and `execs` (CPU time), `waits` with `roster`
and `pressure` (waiting), `parents` (who waits for a task), `buckets` (the last minute), `rendering` and `sampler` (as
profiles), `always` (what of that is on in workers and engine).
"""
