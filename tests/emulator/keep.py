"""Runs a server for as long as its parent lives: `keep.py COMMAND...` ends the command when standard input does.

The parent holds the other end of that pipe, so that its death, by SIGKILL too, ends the server.
"""

import os
import signal
import subprocess
import sys

server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
sys.stdin.buffer.read()
os.killpg(server.pid, signal.SIGTERM)
try:
    server.wait(5)
except subprocess.TimeoutExpired:
    os.killpg(server.pid, signal.SIGKILL)
