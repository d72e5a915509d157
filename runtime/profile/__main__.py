"""`python -m runtime.profile`: look inside, see `runtime.profile.cli`."""

import sys

from runtime.profile.cli import main

if __name__ == "__main__":
    sys.exit(main())
