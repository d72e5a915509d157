"""The house rules as tests over the sources. Knows the tree as text and syntax; starts nothing.

Read `tree` (how the sources are found), then any `test_*`: one rule or family of rules per module, each rule a function
from a source to the lines that break it, each with a planted offence that it must find. `generate` writes what the
documents take from the code: `make docs`.
"""
