"""The tests. Knows everything; nothing in `actors` or `runtime` knows it.

Read `leaks` and `conftest` (what every test is held to), then `tidy` (the house rules), then the folder in question.
"""
