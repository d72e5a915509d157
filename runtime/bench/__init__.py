"""The benchmark: `python -m runtime.bench`. Measures the public face from outside, next to the standard library.

Knows only what a user of `runtime` can import, plus `runtime.mail.link` for the one scenario that measures a queue by
itself. Must not know how the engine works: a scenario that reached inside would measure what no user gets. Nothing in
`actors` or in the rest of `runtime` imports from here. This file imports nothing, because workers import
`runtime.bench.handlers`, and what they load counts in their start-up time and memory.

Reading order: `figures` (what one measurement is), `measure` (clocks, CPU and memory by process role), `handlers` (what
the tasks do), `workloads.base` and the scenarios beside it (one file each), `baselines` (the standard library's nearest
equivalents), `runner` (repetition, alternation, ratios), `machine`, `report`, `command` (the command line).

Method, in short:

- Each sample opens its own runtime on a fresh state folder, warms it up, and measures one window. Garbage collection
  is left as a user has it; it runs once before the window opens.
- With a baseline, samples alternate (ours, theirs, ours, theirs): a machine that slows down slows both. The ratio is
  the median of the ratios of neighbouring samples; its spread is their smallest and largest.
- Results are compared with a computation in plain Python. A wrong result fails the scenario.
"""
