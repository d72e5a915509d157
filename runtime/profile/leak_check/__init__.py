"""What leaks: candidates of this process, looked at several times, graded, and named with their lines.

It knows ledger and kernel. What it can prove comes from `proof`; what it says is a `Finding`.
Reading order: `grading` (when it is a leak; pure), `detectors` and `machine` (candidates), `findings` (what is said of
them), `survey` (all processes), `memory` (growth of bytes), `clean` (the check at the end of a test).
"""
