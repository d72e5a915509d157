"""Entry of `python -m runtime.bench`; see `runtime.bench.command`."""

from __future__ import annotations

import sys

from runtime.bench.command import main

if __name__ == "__main__":
    sys.exit(main())
