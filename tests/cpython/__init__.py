"""CPython's own tests of `concurrent.futures`, run against `runtime.Executor`.

Knows the interpreter's test package and the executor, nothing else of the engine. Read `adapter` (how one is put under
the tests of the other, and the table of what cannot apply), then `test_concurrent_futures`.
"""
