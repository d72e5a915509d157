"""See inside: what every process of an engine holds, waits for and computes, always on and without privileges.

Reading order: `model` (what a profile is), `kinds` and `ledger` (what can leak, and the books of one process), `page`,
`presence` and `control` (what all processes show, and how they are asked); `proof` with `roots`, `mark` and `apart`
(which tasks can never go on); then `grading`, `detectors`, `machine`, `leaks` and `clean` (what leaks), and `burn`,
`watch` and `bundle` (who looks when nobody does).
"""
