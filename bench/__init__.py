"""What belongs to benchmarking and is not installed: recorded runs, their comparison, micro-benchmarks of parts.

The benchmark itself is `runtime.bench`. See `README.md` here.
"""
