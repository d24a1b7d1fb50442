"""A real HTTP server that speaks the three endpoints of a schema registry, with a password if wanted."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class Registry:
    def __init__(self) -> None:
        self.schemas: dict[int, dict] = {}
        self.subjects: dict[str, int] = {}
        self.asked: Counter = Counter()
        self.authorization = ""
        self.fails_with = 0
        self.forbids = ""
        self.answers_with = b""
        self.redirects_to = ""
        self.seen_authorization: list[str | None] = []
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.answer(self)

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def register(self, schema_id: int, schema: Any, subject: str = "", **more: Any) -> None:
        self.schemas[schema_id] = {"schema": schema if isinstance(schema, str) else json.dumps(schema), **more}
        if subject:
            self.subjects[subject] = schema_id

    def protect(self, username: str, password: str) -> None:
        self.authorization = "Basic " + b64encode(f"{username}:{password}".encode()).decode()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.asked[request.path] += 1
        given = request.headers.get("Authorization")
        self.seen_authorization.append(given)
        if self.redirects_to:
            request.send_response(302)
            request.send_header("Location", self.redirects_to + request.path)
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        status, found = self._find(request.path, given)
        body = self.answers_with or json.dumps(found).encode()
        request.send_response(status)
        request.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def _find(self, path: str, given: str | None) -> tuple[int, object]:
        if self.fails_with:
            return self.fails_with, {"error_code": 50001, "message": "store"}
        if self.authorization and given != self.authorization:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        if path == self.forbids:
            return 403, {"error_code": 40301, "message": "Forbidden"}
        parts = path.strip("/").split("/")
        match parts:
            case ["schemas", "ids", number]:
                found = self.schemas.get(int(number))
                return (200, found) if found else (404, {"error_code": 40403, "message": "Schema not found"})
            case ["subjects"]:
                return 200, sorted(self.subjects)
            case ["subjects", subject, "versions", "latest"]:
                if subject not in self.subjects:
                    return 404, {"error_code": 40401, "message": "Subject not found"}
                number = self.subjects[subject]
                return 200, {"subject": subject, "id": number, "version": 1, **self.schemas[number]}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}


@pytest.fixture
def registry() -> Iterator[Registry]:
    server = Registry()
    yield server
    server.stop()


@pytest.fixture
def other_registry() -> Iterator[Registry]:
    server = Registry()
    yield server
    server.stop()
