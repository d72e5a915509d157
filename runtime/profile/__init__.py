"""See inside: what every process of an engine holds, waits for and computes, always on and without privileges.

Reading order: `model` (what a profile is), `formats/` (profiles as files and pages), `diff` (what changed between two),
`convert` (files turned into others).
"""
