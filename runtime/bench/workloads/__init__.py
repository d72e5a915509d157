"""The scenarios, one file each; `base` says what they have in common, `graphs` makes the graphs that several run.

This file imports none of them (`runtime.bench.catalogue` does), because `runtime.bench.baselines` needs `base` and
`graphs`.
"""
