"""Keys, certificates and tokens, made anew for each run."""

import base64
import datetime
import functools
import ipaddress
import json
import time

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PEM = serialization.Encoding.PEM


@functools.cache
def authority():
    """A certificate authority: key and certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    builder = start(name, name, key).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return key, builder.add_extension(usage, critical=True).sign(key, hashes.SHA256())


@functools.cache
def server():
    """A server for localhost: key and certificate, signed by the authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer_key, issuer = authority()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    builder = start(name, issuer.subject, key).add_extension(names, critical=False)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    return key, builder.add_extension(identifier, critical=False).sign(issuer_key, hashes.SHA256())


def start(subject, issuer, key):
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
    builder = builder.not_valid_after(now + datetime.timedelta(days=1))
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


@functools.cache
def token_key():
    return ec.generate_private_key(ec.SECP256R1())


def token(issuer, audience, subject):
    """A signed token, good for ten minutes."""
    now = int(time.time())
    claims = {"iss": issuer, "aud": audience, "sub": subject, "iat": now, "exp": now + 600}
    signed = f"{text(json.dumps({'alg': 'ES256', 'typ': 'JWT'}).encode())}.{text(json.dumps(claims).encode())}"
    r, s = decode_dss_signature(token_key().sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{signed}.{text(r.to_bytes(32) + s.to_bytes(32))}"


def text(octets):
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


def private_pem(key):
    return key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def public_pem():
    return token_key().public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def key_set():
    numbers = token_key().public_key().public_numbers()
    key = {"kty": "EC", "crv": "P-256", "x": text(numbers.x.to_bytes(32)), "y": text(numbers.y.to_bytes(32))}
    return json.dumps({"keys": [key | {"use": "sig", "alg": "ES256", "kid": "test"}]}).encode()


# Configuration key → what its file may hold.
CONTENTS = {
    "certificate": lambda: server()[1].public_bytes(PEM),
    "key": lambda: private_pem(server()[0]),
    "client_ca": lambda: authority()[1].public_bytes(PEM),
    "ca_file": lambda: authority()[1].public_bytes(PEM),
    "jwks_file": key_set,
    "public_key_file": public_pem,
    "secret_file": lambda: b"a secret for tests, made of 42 octets....",
    "token_file": lambda: b"a-token-for-tests\n",
    "bearer_file": lambda: b"a-token-for-tests\n",
    "file": lambda: b"a-value-for-tests\n",
}
