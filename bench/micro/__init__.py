"""What single parts cost: one module per part, each with `operations()`; `timing` measures, `__main__` prints."""
