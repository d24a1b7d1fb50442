"""`python -m surestart`: how a Databricks wheel task starts a package."""

import sys

from surestart.cli.main import main

sys.exit(main())
