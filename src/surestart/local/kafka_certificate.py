"""A key and a certificate for the local broker's TLS listener, made by the JDK's own keytool.

    <folder>/keystore.p12    the key, readable for its owner only; its password is random and in server.properties
    BrokerCertificate.pem    what a client has to trust: SURESTART_KAFKA_SSL_CA_PEM

The certificate signs itself and names 127.0.0.1 and localhost, so a client checks the host name as it would elsewhere.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from surestart.errors import CannotTell
from surestart.spark.java import Java
from surestart.typed import typed, word

_PASSWORD = "SURESTART_KEYSTORE_PASSWORD"


@dataclass(frozen=True)
class BrokerCertificate:
    keystore: Path
    password: str = field(repr=False)
    pem: str = field(repr=False)


def make_certificate(java: Java, folder: Path) -> BrokerCertificate:
    """A new key and certificate are in the folder."""
    keystore, password = folder / "keystore.p12", secrets.token_urlsafe(18)
    shared = ("-alias", "broker", "-keystore", str(keystore), "-storetype", "PKCS12", "-storepass:env", _PASSWORD)
    _keytool(
        *(java, password, "-genkeypair", *shared, "-keyalg", "EC", "-groupname", "secp256r1", "-validity", "3650"),
        *("-dname", "CN=localhost", "-ext", "SAN=ip:127.0.0.1,dns:localhost"),
    )
    keystore.chmod(0o600)
    return BrokerCertificate(keystore, password, _keytool(java, password, "-exportcert", "-rfc", *shared))


def _keytool(java: Java, password: str, *arguments: str) -> str:
    # By the environment: arguments of a process can be read by everybody on the machine.
    tool = _find_keytool(java)
    done = subprocess.run(
        [str(tool), *arguments],
        env={**os.environ, _PASSWORD: password},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode != 0:
        raise CannotTell(
            f"keytool {arguments[0]} ended with {done.returncode}: {(done.stdout or done.stderr).strip()[-300:]}",
            meaning="There is no certificate, so the broker cannot offer TLS.",
            next=typed(word(tool), "-help"),
            code="KafkaCertificateNotMade",
        )
    return done.stdout


def _find_keytool(java: Java) -> Path:
    """Beside the Java that really runs: the one that is found may be a launcher, such as that of a Spark session."""
    asked = [str(java.executable), "-XshowSettings:properties", "-version"]
    told = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False).stderr
    home = re.search(r"java\.home = (.+)", told)
    tool = Path(home.group(1).strip()) / "bin" / "keytool" if home else java.executable.parent / "keytool"
    if not tool.exists():
        raise CannotTell(
            f"there is no keytool at {tool}",
            meaning="There is no certificate, so the broker cannot offer TLS. Java itself works.",
            next="sudo apt-get install openjdk-17-jre-headless",
            code="KafkaCertificateNotMade",
        )
    return tool
