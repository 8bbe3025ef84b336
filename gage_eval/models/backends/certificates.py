"""Certificates of servers that are started for runs elsewhere.

A server signs its certificate itself. A run takes no other one, so neither an authority nor the server's name matters:
the run has the certificate from the store, as it has the token.
"""

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

# Clocks of two machines may differ by the first; no server runs for the second.
_CLOCKS_DIFFER = timedelta(days=1)
_VALID = timedelta(days=365)


@dataclass(frozen=True)
class Certificate:
    """A certificate that is its own authority.

    Attributes:
        pem: its text.
        file: a file with that text.
        key_file: the file of its private key; only its owner may read it.
    """

    pem: str
    file: Path
    key_file: Path


def new_certificate(folder: Path) -> Certificate:
    """Make a certificate with a new key.

    Args:
        folder: gets both files.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import NameOID

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gage-eval")])
    certificate = (
        x509.CertificateBuilder(name, name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + _VALID)
        .sign(key, SHA256())
    )
    made = Certificate(
        certificate.public_bytes(Encoding.PEM).decode("ascii"), folder / "certificate.pem", folder / "key.pem"
    )
    made.file.write_text(made.pem)
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with open(os.open(made.key_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secret)
    return made
