"""Containers for `make test-sam`: the engine, the image that functions run in, and their way to this machine's servers."""

import asyncio
import contextlib
import datetime
import ipaddress
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import here

BASE = "public.ecr.aws/lambda/provided:al2023"
STAND_IN = "localhost/gleaner-stand-in"
SETTINGS = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
"""
# From linux/in.h: an address may be listened at that is there only while a container runs.
IP_FREEBIND = 15


class Containers:
    """Docker where it runs, else podman, which is installed where that needs no asking. `close` ends all of it."""

    def __init__(self, folder, processes):
        self.environment, self.engine = {"TMPDIR": str(folder)}, "docker"
        if not docker_runs():
            self.engine = "podman"
            self._start_podman(folder, processes)
        self.options = ["--skip-pull-image"]
        self.certificate = folder / "certificate.pem"
        self.forwarders = []
        if not self._has_base_image():
            self._make_stand_in(folder)
            self.options += ["--invoke-image", STAND_IN]

    def reach(self, port, secure=False):
        """The URL at which containers find a server of this machine that listens to this machine only.

        With `secure` it is an https one, of a certificate that they must be told to trust: `certificate`.
        """
        if sys.platform == "darwin":
            host, listen = "host.docker.internal", "127.0.0.1"
        else:
            host = listen = self._gateway()
        context = self._context(host) if secure else None
        forwarder = Forwarder(listen, port, context)
        self.forwarders.append(forwarder)
        return f"{'https' if secure else 'http'}://{host}:{forwarder.port}"

    def close(self):
        for forwarder in self.forwarders:
            forwarder.close()
        if "--invoke-image" in self.options:
            # The image, and the one that sam made of it.
            for tag in ("latest", f"rapid-{architecture()}"):
                self._run("rmi", "--force", f"{STAND_IN}:{tag}", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _context(self, host):
        key = self.certificate.with_name("key.pem")
        write_certificate(host, self.certificate, key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        return context

    def _start_podman(self, folder, processes):
        if not shutil.which("podman") or not shutil.which("runc"):
            install = ". scripts/debian.sh && debian_install podman runc"
            subprocess.run(["bash", "-c", install], cwd=here.ROOT, stdin=subprocess.DEVNULL)
        if not shutil.which("podman") or not shutil.which("runc"):
            here.stop_with("no Docker runs here, and podman or runc is missing. Install them, and run this again")
        (folder / "containers.conf").write_text(SETTINGS)
        at = folder / "podman.sock"
        self.environment |= {"CONTAINERS_CONF": str(folder / "containers.conf"), "DOCKER_HOST": f"unix://{at}"}
        serve = ["podman", "system", "service", "--time", "0", f"unix://{at}"]
        processes.start("podman", serve, {**os.environ, **self.environment}, at.exists)

    def _run(self, *arguments, **options):
        environment = {**os.environ, **self.environment}
        return subprocess.run([self.engine, *arguments], env=environment, stdin=subprocess.DEVNULL, **options)

    def _gateway(self):
        network = {"docker": "bridge", "podman": "podman"}[self.engine]
        asked = self._run("network", "inspect", network, check=True, stdout=subprocess.PIPE)
        (found,) = json.loads(asked.stdout)
        return found["subnets"][0]["gateway"] if "subnets" in found else found["IPAM"]["Config"][0]["Gateway"]

    def _has_base_image(self):
        # Asked first: an engine tries a registry that is out of reach for minutes.
        with contextlib.suppress(OSError):
            try:
                urllib.request.urlopen("https://public.ecr.aws/v2/", timeout=10).close()
            except urllib.error.HTTPError:
                pass
            return self._run("pull", f"{BASE}-{architecture()}", stdout=sys.stderr).returncode == 0
        return False

    def _make_stand_in(self, folder):
        print("The registry of AWS's base images is out of reach: a stand-in takes its place.", file=sys.stderr)
        root, tar = folder / "root", folder / "root.tar"
        for empty in ("var/task", "var/runtime", "opt", "tmp"):
            (root / empty).mkdir(parents=True)
        (root / "tmp").chmod(0o1777)
        programs = ["/bin/sh", "/bin/mv", "/bin/chmod"]
        needed = subprocess.run(["ldd", *programs], check=True, stdout=subprocess.PIPE, text=True).stdout
        libraries = {word for word in needed.split() if word.startswith("/") and not word.endswith(":")}
        # What AWS's image has beside those, and Rust's programs ask for; nothing that it does not have.
        beside = next(Path(library).parent for library in libraries if Path(library).name.startswith("libc."))
        more = ("libm.so.6", "libdl.so.2", "libpthread.so.0", "libgcc_s.so.1")
        libraries |= {str(beside / name) for name in more if (beside / name).exists()}
        for file in [*programs, *libraries, "/etc/ssl/certs/ca-certificates.crt"]:
            copy = root / file.lstrip("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
        subprocess.run(["tar", "-C", root, "-cf", tar, "."], check=True)
        self._run("import", str(tar), STAND_IN, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Forwarder:
    """Passes connections on to a port of this machine's loopback."""

    def __init__(self, listen, to, context):
        at = socket.socket()
        if sys.platform == "linux":
            at.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
        at.bind((listen, 0))
        self.port, self.to, self.secure = at.getsockname()[1], to, context is not None
        self.loop = asyncio.new_event_loop()
        serving = asyncio.start_server(self._pass_on, sock=at, ssl=context)
        self.server = self.loop.run_until_complete(serving)
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.server.close()

    async def _pass_on(self, reader, writer):
        with contextlib.suppress(OSError):
            there, back = await asyncio.open_connection("127.0.0.1", self.to)
            await asyncio.gather(copy(reader, back), copy(there, writer, self._as_seen_there))

    def _as_seen_there(self, data):
        """The server doesn't know that it is reached by https, and names a URL of its own for uploads."""
        name = b"x-goog-upload-url: "
        return data.replace(name + b"http://", name + b"https://") if self.secure else data


async def copy(reader, writer, change=bytes):
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(change(data))
            await writer.drain()
        writer.close()


def write_certificate(host, certificate, key):
    """Writes a certificate of that name or address, which signs itself, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    made = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    try:
        known_as = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        known_as = x509.DNSName(host)
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = x509.CertificateBuilder(name, name, made.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(days=1))
    builder = builder.add_extension(x509.SubjectAlternativeName([known_as]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    pem = serialization.Encoding.PEM
    certificate.write_bytes(builder.sign(made, hashes.SHA256()).public_bytes(pem))
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    key.write_bytes(made.private_bytes(pem, form, plain))


def docker_runs():
    if not shutil.which("docker"):
        return False
    try:
        asked = subprocess.run(["docker", "info"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=20)
    except subprocess.TimeoutExpired:
        return False
    return asked.returncode == 0


def architecture():
    return "arm64" if os.uname().machine in ("aarch64", "arm64") else "x86_64"
