"""Starts real processes of a job for the end-to-end tests, and ends them whatever happens.

The programs come from $PARAPET_BIN, or from build/release/bin. Whatever a process writes goes to files in
the test's own folder; when a test fails they are printed.
"""

import ctypes
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("PARAPET_BIN", ROOT / "build/release/bin"))

# A job of milliseconds: 404 parameters, 32 rounds an epoch with two workers.
SMALL = ("--data=synthetic:20,4,2000", "--model=mlp:16", "--batch=32")
# 235146 parameters: 15 leaves of 16Ki, so several servers have several chunks each.
LARGE = ("--data=synthetic:784,10,1000", "--model=mlp:256,128", "--batch=16")
# A job that no test waits for.
ENDLESS = "--rounds=100000000"

# Bounds against hanging, not measurements: the machine may be busy with other things.
PATIENCE = 60  # seconds, for a whole job
LOG_TAIL = 6000  # characters of a log that are shown


def _die_with_parent():
    """In the child: killed by the kernel if the test's process is (1 is PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def wait_until(condition, seconds, what):
    """Polls `condition` until it gives something true, and returns that."""
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"after {seconds} s still no {what}")
        time.sleep(0.005)


def children_of(pid):
    """The ids of a process's children, dead ones that nobody has waited for left out."""
    children = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name of the program, in brackets, may itself have spaces and brackets.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] not in "ZX":
            children.append(int(entry.name))
    return children


def is_running(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


class Process:
    """A program that was started, its standard output and error in files."""

    def __init__(self, name, argv, folder, cwd=None):
        self.name = name
        self.argv = [str(word) for word in argv]
        stem = name.replace(" ", "-")
        self._out, self._err = folder / f"{stem}.out", folder / f"{stem}.err"
        with open(self._out, "wb") as out, open(self._err, "wb") as err:
            self._popen = subprocess.Popen(
                self.argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=cwd, preexec_fn=_die_with_parent
            )
        self.pid = self._popen.pid

    @property
    def out(self):
        return self._out.read_text(errors="replace")

    @property
    def err(self):
        return self._err.read_text(errors="replace")

    def running(self):
        return self._popen.poll() is None

    def send(self, number):
        self._popen.send_signal(number)

    def wait(self, seconds=PATIENCE):
        """The exit code; minus the signal's number if one ended it."""
        try:
            return self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} still runs after {seconds} s") from None

    def wait_for(self, pattern, seconds=PATIENCE):
        """Waits until standard error has a match for the pattern, which is returned."""

        def look():
            # First the state, then the text: nothing is written after the end.
            ended = not self.running()
            match = re.search(pattern, self.err)
            if not match and ended:
                raise AssertionError(f"{self.name} ended ({self.wait()}) without writing {pattern!r}")
            return match

        return wait_until(look, seconds, f"{pattern!r} from {self.name}")

    def end(self):
        # Those of a launcher, in case it is the launcher that is being tested.
        for pid in children_of(self.pid) if self.running() else []:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._popen.kill()
        self._popen.wait()

    def log(self):
        text = self.err
        cut = "[...]\n" if len(text) > LOG_TAIL else ""
        state = "running" if self.running() else f"exit {self._popen.returncode}"
        return f"---- {self.name} ({state}): {' '.join(self.argv)}\n{cut}{text[-LOG_TAIL:]}{self.out[-LOG_TAIL:]}"


class Job:
    """The processes of one job, which the test starts one by one or all at once."""

    def __init__(self, case, *flags, servers=2, workers=2, evaluators=0, tcp=False, scheme="ipc", name="job"):
        self.case, self.flags, self.tcp = case, flags, tcp
        self.servers, self.workers, self.evaluators = servers, workers, evaluators
        self.folder = case.folder / name
        self.folder.mkdir()
        self.addresses = [f"{scheme}://{self.folder}/s{i}" for i in range(servers)]
        if tcp:
            self.addresses = ["127.0.0.1:0"] * servers
        self.processes = {}

    def _start(self, name, program, *flags, addresses=None, cwd=None):
        argv = [BIN / program, *self.flags, f"--servers={','.join(addresses or self.addresses)}"]
        argv += [f"--workers={self.workers}", f"--evaluators={self.evaluators}", *flags]
        unique = name
        while unique in self.processes:
            unique += " again"
        self.processes[unique] = self.case.start(f"{self.folder.name} {unique}", argv, cwd=cwd)
        return self.processes[unique]

    def server(self, index, *flags, **how):
        own = [f"--index={index}", "--progress=plain"]
        port_file = self.folder / f"port-{index}"
        if self.tcp:
            own.append(f"--port_file={port_file}")
        if index == 0:
            own.append(f"--summary_file={self.folder / 'summary.json'}")
        process = self._start(f"server {index}", "parapet-server", *own, *flags, **how)
        if self.tcp:
            wait_until(lambda: port_file.exists() or not process.running(), PATIENCE, f"port of server {index}")
            self.addresses[index] = f"127.0.0.1:{int(port_file.read_text())}"
        return process

    def worker(self, number, *flags, **how):
        return self._start(f"worker {number}", "parapet-worker", f"--id={number}", *flags, **how)

    def evaluator(self, number=0, *flags, **how):
        return self._start(f"evaluator {number}", "parapet-worker", f"--id={number}", "--evaluator", *flags, **how)

    def start(self):
        """Starts everybody; returns the job."""
        for index in range(self.servers):
            self.server(index)
        for number in range(self.workers):
            self.worker(number)
        for number in range(self.evaluators):
            self.evaluator(number)
        return self

    def __getitem__(self, name):
        return self.processes[name]

    def train_a_while(self, seconds=0.3):
        """Waits for the first rounds, which take the longest, and for some more."""
        self["server 0"].wait_for(r"(?m)^round \d+/")
        time.sleep(seconds)

    def wait(self, seconds=PATIENCE, except_for=()):
        """Exit codes by name, of all but those."""
        deadline = time.monotonic() + seconds
        codes = {}
        for name, process in self.processes.items():
            if name not in except_for:
                codes[name] = process.wait(max(0.1, deadline - time.monotonic()))
        return codes

    def summary(self):
        path = self.folder / "summary.json"
        if not path.exists():
            raise AssertionError("the lead wrote no summary")
        return json.loads(path.read_text())


class Finished:
    """A `parapet run` that has ended."""

    def __init__(self, process, seconds):
        self.code = process.wait(seconds)
        self.out, self.err = process.out, process.err

    @property
    def summary(self):
        lines = self.out.splitlines()
        if not lines:
            raise AssertionError(f"exit code {self.code}, and nothing on standard output")
        return json.loads(lines[-1])


def parapet(*words):
    return [BIN / "parapet", *words]


def run_command(*flags, servers=2, workers=2, evaluators=0):
    counts = [f"--servers={servers}", f"--workers={workers}", f"--evaluators={evaluators}"]
    return parapet("run", *counts, "--summary=json", *flags)


class ClusterTest(unittest.TestCase):
    """A test with a folder of its own, whose processes do not outlive it."""

    def run(self, result=None):
        result = result if result is not None else self.defaultTestResult()
        before = len(result.failures) + len(result.errors)
        # The names of sockets are short, so not below a long $TMPDIR.
        with tempfile.TemporaryDirectory(prefix="parapet-e2e-", dir="/tmp") as folder:
            self.folder, self._processes = pathlib.Path(folder), []
            try:
                super().run(result)
            finally:
                logs = [process.log() for process in self._processes]
                for process in reversed(self._processes):
                    process.end()
        if len(result.failures) + len(result.errors) > before:
            print(f"==== {self.id()} failed; its processes:", *logs, sep="\n", file=sys.stderr, flush=True)
        return result

    def start(self, name, argv, cwd=None):
        process = Process(f"{len(self._processes)} {name}", argv, self.folder, cwd)
        self._processes.append(process)
        return process

    def run_job(self, *flags, seconds=PATIENCE, **counts):
        """`parapet run` to its end, which must be a good one."""
        finished = Finished(self.start("run", run_command(*flags, **counts)), seconds)
        self.assertEqual(finished.code, 0, "exit code of parapet run")
        return finished

    def call(self, *words, seconds=PATIENCE):
        """Another command of parapet, to its end."""
        process = self.start(words[0] if words else "parapet", parapet(*words))
        process.wait(seconds)
        return process

    def assert_all_exit(self, job, code, seconds=PATIENCE, except_for=()):
        codes = job.wait(seconds, except_for)
        self.assertEqual(codes, {name: code for name in codes})

    # ---- Snapshots --------------------------------------------------------------------------------

    def latest(self, folder):
        """The version of the newest snapshot; None as long as there is none."""
        try:
            name = (pathlib.Path(folder) / "latest").read_text().strip()
        except FileNotFoundError:
            return None
        return int(name.removeprefix("step-"))

    def manifest(self, folder, version):
        return json.loads((pathlib.Path(folder) / f"step-{version:012}" / "manifest.json").read_text())

    def shown(self, folder):
        """What `parapet ckpt show` says of the newest snapshot, by the words before the colons."""
        process = self.call("ckpt", "show", folder)
        self.assertEqual(process.wait(), 0, process.err)
        return dict(re.findall(r"^([a-z ]+): +(.*)$", process.out, re.MULTILINE))


def main():
    for program in ("parapet", "parapet-server", "parapet-worker"):
        if not (BIN / program).exists():
            sys.exit(f"there is no {BIN / program}: build it, or say where it is with PARAPET_BIN")
    unittest.main(verbosity=2)
