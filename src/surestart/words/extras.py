"""What to type where a package is missing: the packages of an extra of ours, each by its own name.

The name `surestart` stands on no index: whoever typed it with an extra behind it would get nothing, or somebody else's
package of that name. What an extra brings stands in the metadata of the installed wheel.
"""

from __future__ import annotations

import re
import sys

from surestart.typed import NextCommand, typed

_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")


def install_extra(*extras: str) -> NextCommand:
    """One line that installs what these extras bring into this Python."""
    brought = [package for extra in extras for package in packages_of(extra)]
    named = f"surestart[{','.join(extras)}]"
    # Of sources that nobody has installed nothing is known but the extra's name.
    return install(*(brought or [named]), note=f"what the extra {named} brings")


def install(*packages: str, note: str = "") -> NextCommand:
    """One line that installs these packages into this Python."""
    return typed(sys.executable, "-m", "pip", "install", *packages, note=note)


def packages_of(extra: str) -> list[str]:
    """The requirements of the extra, as the installed package's metadata has them; empty where it has none."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        said = requires("surestart") or []
    except PackageNotFoundError:
        return []
    parts = [line.partition(";") for line in said]
    return [package.strip() for package, _, marker in parts if extra in _EXTRA.findall(marker)]
