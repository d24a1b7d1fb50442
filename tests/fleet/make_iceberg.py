"""Packs what a run of `python -m benchmarks.matrix iceberg` leaves of its undamaged streams into iceberg.zip: their
checkpoints and their tables' metadata, written by Spark 4.0.5 and Iceberg 1.10.0. Rows and manifests are left out."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

ARCHIVE = Path(__file__).with_name("iceberg.zip")
KINDS = {"own": "iceberg", "function": "iceberg-in-a-function"}


def main(lab: Path) -> None:
    with zipfile.ZipFile(ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, kind in KINDS.items():
            base = lab / "base" / kind
            for path in sorted((base / "checkpoint").rglob("*")):
                if path.is_file():
                    # A name of a checksum, and bytes that no path stands in: neither needs another lab.
                    _put(archive, path, f"{name}/checkpoint/{path.relative_to(base / 'checkpoint')}", lab)
            for path in sorted((base / "out/metadata").glob("*")):
                if path.name.endswith(".metadata.json") or path.name == "version-hint.text":
                    _put(archive, path, f"{name}/out/metadata/{path.name}", lab)


def _put(archive: zipfile.ZipFile, path: Path, name: str, lab: Path) -> None:
    data = path.read_bytes()
    if path.suffix == ".crc" and str(lab).encode() in path.with_name(path.name[1:-4]).read_bytes():
        return
    archive.writestr(zipfile.ZipInfo(name, (2026, 11, 20, 1, 0, 0)), data.replace(str(lab).encode(), b"/lab"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
