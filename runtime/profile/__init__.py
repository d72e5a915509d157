"""See inside: what every process of an engine holds, waits for and computes, always on and without privileges.

Reading order: `model` (what a profile is).
"""
