"""A TCP relay in front of the server that can cut a connection at its COMMIT, before or after the server saw it."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType

import psycopg.conninfo

from surestart.facts.postgres.url import DatabaseUrl, Secret


class CuttingProxy:
    def __init__(self, url: str) -> None:
        parts = psycopg.conninfo.conninfo_to_dict(url)
        self._server = (str(parts["host"]), int(parts.get("port") or 5432))
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        text = f"postgresql://{parts['user']}:{parts['password']}@127.0.0.1:{port}/{parts['dbname']}?sslmode=disable"
        self.secret: Secret = DatabaseUrl(variable="URL").read({"URL": text})
        self.cuts = 0
        self._forward: bool | None = None
        self._then_refuse = False
        self._refusing = False
        self._forward_after: threading.Event | None = None

    def cut_at_commit(
        self, *, forward: bool, then_refuse: bool = False, forward_after: threading.Event | None = None
    ) -> None:
        """From now on the connection that says COMMIT on its own is cut; the server sees the COMMIT if `forward`, once
        `forward_after` is set."""
        # A task's COMMIT is still to come and must pass: only the one after a ledger row counts.
        self._forward, self._then_refuse, self._forward_after = forward, then_refuse, forward_after

    def __enter__(self) -> CuttingProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                client.close()
                continue
            server = socket.create_connection(self._server)
            threading.Thread(target=self._upstream, args=(client, server), daemon=True).start()
            threading.Thread(target=self._downstream, args=(server, client), daemon=True).start()

    def _upstream(self, client: socket.socket, server: socket.socket) -> None:
        wrote_ledger = False
        try:
            while data := client.recv(65536):
                wrote_ledger = wrote_ledger or b'INSERT INTO "public"."surestart_ledger"' in data
                if self._forward is not None and wrote_ledger and b"COMMIT" in data:
                    self.cuts += 1
                    self._refusing = self._then_refuse
                    forward, self._forward = self._forward, None
                    client.shutdown(socket.SHUT_RDWR)
                    if forward:
                        if self._forward_after is not None:
                            self._forward_after.wait(60)
                        server.sendall(data)
                    break
                server.sendall(data)
        except OSError:
            pass
        finally:
            # Half a close: what was forwarded is still executed by the server, then it sees the end of the stream.
            with suppress(OSError):
                server.shutdown(socket.SHUT_WR)

    def _downstream(self, server: socket.socket, client: socket.socket) -> None:
        try:
            while data := server.recv(65536):
                client.sendall(data)
        except OSError:
            pass
        finally:
            client.close()
            server.close()
