"""See inside: what every process of an engine holds, waits for and computes, always on and without privileges.

Reading order: `model` (what a profile is), `kinds` and `ledger` (what can leak, and the books of one process), `page`,
`presence` and `control` (what all processes show, and how they are asked); then `labels` (on whose account code runs),
`ticks` and `waits` (what it computes and waits for), `sampler` (both as profiles), `proof` with `roots`, `mark` and
`apart` (which tasks can never go on), `grading`, `detectors`, `machine`, `leaks` and `clean` (what leaks), `burn`, `watch`
and `bundle` (who looks when nobody does), `formats/` (profiles as files and pages), `diff` (what changed between two),
`convert` (files turned into others).
"""
