"""The stack on this machine: its emulator, its simulator, its deployment. Used by `make local` and `make test-sam`."""

import base64
import hmac
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = Path(sys.executable).parent
SAM_TOOLS = ROOT / ".venv-sam" / "bin"
REGION = "us-east-1"
PATIENCE = 120
SIGNING_KEY = b"an example, of no use anywhere"


def stop_with(message):
    raise SystemExit(f"{Path(sys.argv[0]).name}: {message}")


def built():
    """What `make functions` built: the folder of the functions' `bootstrap`, and the command line."""
    code, gleaner = ROOT / "target/lambda/bootstrap", ROOT / "target/debug/gleaner"
    if not (code / "bootstrap").exists() or not gleaner.exists():
        stop_with("the functions are not built: run `make functions`")
    return code, gleaner


def template(folder, code, variables=None):
    """Writes template.yaml with built code, and with variables more for every function. Returns the file."""
    text = (ROOT / "template.yaml").read_text()
    text, found = re.subn(r"(?m)^    CodeUri: \.$", f"    CodeUri: {code}", text)
    if variables:
        more = "".join(f"        {name}: {json.dumps(value)}\n" for name, value in variables.items())
        text = text.replace("Globals:\n  Function:\n", f"Globals:\n  Function:\n    Environment:\n      Variables:\n{more}")
        found += more in text
    text = text.replace("TemplateURL: infra/", f"TemplateURL: {ROOT}/infra/")
    if found != 1 + bool(variables):
        stop_with("template.yaml has another form than this script knows")
    file = folder / "template.yaml"
    file.write_text(text)
    return file


def free_port(wished=0):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wished))
        except OSError:
            return free_port()
        return probe.getsockname()[1]


def environment(port):
    """What makes AWS's own clients ask the emulator, with keys that are nobody's."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
    }


def own_environment(more):
    """This process's environment without what would lead elsewhere or set something, and with `more`."""
    leading = ("AWS_", "GLEANER_", "GEMINI_", "GOOGLE_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(leading)}
    return {**kept, "NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost", **more}


class Processes:
    """Processes that outlive the one that started them. Each is known by its id and the time at which it began."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def start(self, name, command, environment, until):
        """Starts it if it does not run, and waits until it answers at the URL `until`, or until that says so itself."""
        if self.running(name) is None:
            with (self.folder / f"{name}.log").open("ab") as log:
                process = subprocess.Popen(
                    [str(part) for part in command],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            self._file(name).write_text(json.dumps([process.pid, began(process.pid)]))
        deadline = time.monotonic() + PATIENCE
        while not (until() if callable(until) else answers(until)):
            if self.running(name) is None or time.monotonic() > deadline:
                stop_with(f"{name} does not answer; see {self.folder / name}.log")
            time.sleep(0.1)

    def stop(self, name):
        """Ends it and what it started. One that is gone is no error."""
        pid = self.running(name)
        if pid is not None:
            end(pid)
        self._file(name).unlink(missing_ok=True)

    def stop_all(self):
        """Ends all that were started with this folder."""
        for file in self.folder.glob("*.pid"):
            self.stop(file.stem)

    def running(self, name):
        """Its process id; none when it is gone or another process has its number."""
        try:
            pid, then = json.loads(self._file(name).read_text())
        except (FileNotFoundError, ValueError):
            return None
        return pid if began(pid) == then else None

    def _file(self, name):
        return self.folder / f"{name}.pid"


def began(pid):
    """When a process began, as text; none when there is no such process, or only its remains."""
    if Path("/proc/self/stat").exists():
        try:
            # Behind the name, which is in brackets and may hold anything: the state, and 19 fields later the start.
            state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if state == "Z" else fields[18]
    asked = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], stdout=subprocess.PIPE, text=True)
    state, _, then = asked.stdout.strip().partition(" ")
    return then.strip() if then and not state.startswith("Z") else None


def end(pid):
    """Ends a process that leads a group of its own: asks it first, since it may have something to write down."""
    then = began(pid)
    if then is None:
        return
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 20
    while began(pid) == then and time.monotonic() < deadline:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass
        time.sleep(0.1)
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def answers(url):
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        opener.open(url, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError):
        return False
    return True


def start_emulator(processes, port, persistent=False, enforcing=False):
    """AWS on this machine, reachable from this machine only; functions run as processes of their own.

    It keeps what it holds if it is `persistent`, and lets everybody but the keys of `environment` do what IAM allows and
    nothing else if it is `enforcing`.
    """
    folder = processes.folder
    (folder / "tmp").mkdir(exist_ok=True)
    told = {
        **environment(port),
        "GATEWAY_PORT": str(port),
        "BIND_HOST": "127.0.0.1",
        "LAMBDA_EXECUTOR": "local",
        # Listeners that nobody asked for.
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "TMPDIR": str(folder / "tmp"),
    }
    if persistent:
        told |= {
            "PERSIST_STATE": "1",
            "STATE_DIR": str(folder / "state"),
            "S3_PERSIST": "1",
            "S3_DATA_DIR": str(folder / "objects"),
        }
    if enforcing:
        told["AUTH"] = "true"
    health = f"http://127.0.0.1:{port}/_ministack/health"
    processes.start("emulator", [TOOLS / "ministack"], own_environment(told), health)


def start_simulator(processes, gleaner, port, *arguments):
    """Gemini on this machine. Returns its URL."""
    url = f"http://127.0.0.1:{port}"
    command = [gleaner, "simulator", "--port", port, *arguments]
    processes.start("simulator", command, own_environment({}), url)
    return url


def sam(arguments, port, more=None, **options):
    """Runs a sam command against the emulator."""
    told = {
        **environment(port),
        "SAM_CLI_TELEMETRY": "0",
        # It would be asked who this machine is, and nobody would answer.
        "AWS_EC2_METADATA_DISABLED": "true",
        **(more or {}),
    }
    command = [str(SAM_TOOLS / "sam"), *(str(argument) for argument in arguments)]
    return subprocess.run(command, env=own_environment(told), stdin=subprocess.DEVNULL, text=True, **options)


def deploy(stack, file, port, parameters):
    """Deploys with `sam deploy`; nothing to change is no error."""
    overrides = [f"{name}={value}" for name, value in parameters.items()]
    arguments = ["deploy", "--template", file, "--stack-name", stack, "--region", REGION, "--resolve-s3"]
    arguments += ["--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset", "--no-fail-on-empty-changeset"]
    arguments += ["--no-progressbar", "--parameter-overrides", *overrides]
    done = sam(arguments, port, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.stderr.write(done.stdout)
        stop_with("sam deploy failed")


def client(service, port, keys=None):
    """A client of the emulator, of whom `keys` belong to."""
    import boto3

    told = {**environment(port), **(keys or {})}
    return boto3.client(
        service,
        endpoint_url=told["AWS_ENDPOINT_URL"],
        region_name=REGION,
        aws_access_key_id=told["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=told["AWS_SECRET_ACCESS_KEY"],
    )


def outputs(stack, port):
    described = client("cloudformation", port).describe_stacks(StackName=stack)
    return {output["OutputKey"]: output["OutputValue"] for output in described["Stacks"][0]["Outputs"]}


def put_key(found, port):
    """The simulator takes any API key."""
    keys = json.dumps({"gemini_api_keys": ["simulated"]})
    client("secretsmanager", port).put_secret_value(SecretId=found["GeminiSecret"], SecretString=keys)


def put_signing_secret(found, port):
    """The one with which `signed` signs."""
    secrets = json.dumps({"webhook_secrets": ["whsec_" + base64.b64encode(SIGNING_KEY).decode()]})
    client("secretsmanager", port).put_secret_value(SecretId=found["WebhookSecret"], SecretString=secrets)


def signed(name, body):
    """Headers of an event that Gemini would send now."""
    now = str(int(time.time()))
    digest = hmac.digest(SIGNING_KEY, f"{name}.{now}.".encode() + body, "sha256")
    signature = "v1," + base64.b64encode(digest).decode()
    return {"webhook-id": name, "webhook-timestamp": now, "webhook-signature": signature}
