"""A small server on 127.0.0.1 that speaks the calls of Databricks' Files API that reading needs, and counts them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit


class FilesApi(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, volume: str, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.volume = volume
        self.folder = folder
        self.calls: list[tuple[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: FilesApi

    def do_GET(self) -> None:
        self._answer(True)

    def do_HEAD(self) -> None:
        self._answer(False)

    def do_PUT(self) -> None:
        self.server.calls.append(("PUT", self.path))
        self.send_error(405)

    do_POST = do_DELETE = do_PATCH = do_PUT

    def _answer(self, body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.calls.append((self.command, path))
        for kind in ("directories", "files"):
            prefix = f"/api/2.0/fs/{kind}{self.server.volume}"
            if path.startswith(prefix):
                target = self.server.folder / path[len(prefix) :].strip("/")
                if target.is_dir() if kind == "directories" else target.is_file():
                    data = self._listing(target) if kind == "directories" else target.read_bytes()
                    return self._send(200, data, "application/json" if kind == "directories" else "binary", body)
        missing = json.dumps({"error_code": "NOT_FOUND", "message": "not found"}).encode()
        return self._send(404, missing, "application/json", body)

    def _listing(self, folder: Path) -> bytes:
        contents = [
            {
                "path": f"{self.server.volume}/{path.relative_to(self.server.folder)}",
                "name": path.name,
                "is_directory": path.is_dir(),
                "last_modified": int(path.stat().st_mtime * 1000),
                **({} if path.is_dir() else {"file_size": path.stat().st_size}),
            }
            for path in sorted(folder.iterdir())
        ]
        return json.dumps({"contents": contents}).encode()

    def _send(self, code: int, data: bytes, kind: str, body: bool) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Last-Modified", formatdate(usegmt=True))
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        """Quiet."""


@contextmanager
def files_api(volume: str, folder: Path) -> Iterator[FilesApi]:
    server = FilesApi(volume, folder)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
