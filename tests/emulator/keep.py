"""Runs a server for as long as its parent lives: `keep.py COMMAND...` ends the command when standard input does.

The parent holds the other end of that pipe, so that its death, by SIGKILL too, ends the server.
"""

import os
import signal
import subprocess
import sys



def heard():
    """What is ignored here is not ignored in the server."""
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_DFL)


# Whoever ends the tests by a signal to all of their processes means this one last: it has something to end.
for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(name, signal.SIG_IGN)
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True, restore_signals=True, preexec_fn=heard)
sys.stdin.buffer.read()
os.killpg(server.pid, signal.SIGTERM)
try:
    server.wait(5)
except subprocess.TimeoutExpired:
    os.killpg(server.pid, signal.SIGKILL)
