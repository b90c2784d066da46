"""What `parapet plan` says, beside what a real job takes."""

import json
import re
import time

import cluster

# 5,824,522 parameters, and so few that only what every server needs is left.
LARGE, TINY = "mlp:2048,2048", "mlp:2"
PARAMETERS = 784 * 2048 + 2048 + 2048 * 2048 + 2048 + 2048 * 10 + 10
WORKERS = 4


def peak_of(pid):
    """The peak of a process's resident memory so far [bytes]; 0 once it is gone."""
    try:
        with open(f"/proc/{pid}/status") as status:
            found = re.search(r"VmHWM:\s+(\d+) kB", status.read())
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


class PlanTest(cluster.ClusterTest):
    def peaks(self, model, scheme, *flags):
        """The peaks of memory of server 0 and worker 0 [bytes], after some rounds."""
        job = cluster.Job(self, "--data=synthetic:784,10,1000", f"--model={model}", "--batch=1", "--rounds=12",
                          *flags, servers=2, workers=WORKERS, scheme=scheme,
                          name=f"job-{len(self._processes)}")
        job.start()
        pids = {name: job[name].pid for name in ("server 0", "worker 0")}
        peaks = dict.fromkeys(pids, 0)
        while job["server 0"].running():
            for name, pid in pids.items():
                peaks[name] = max(peaks[name], peak_of(pid))
            time.sleep(0.005)
        self.assert_all_exit(job, 0)
        return peaks, job.summary()

    def plan(self, *flags):
        words = ("plan", f"--parameters={PARAMETERS}", f"--workers={WORKERS}", "--servers=2", *flags, "--json")
        process = self.call(*words)
        self.assertEqual(process.wait(), 0, process.err)
        return json.loads(process.out)

    def check(self, *flags, transport="ipc"):
        plan = self.plan(*flags, f"--transport={transport}")
        tiny, _ = self.peaks(TINY, transport, *flags)
        large, summary = self.peaks(LARGE, transport, *flags)
        self.assertEqual(summary["bytes_pushed"], summary["rounds"] * plan["bytes_pushed"])
        # The version of the beginning is published too.
        self.assertEqual(summary["bytes_published"], (summary["rounds"] + 1) * plan["bytes_published"])
        for name in ("server", "worker"):
            # What is mapped of others is resident too.
            usual, most = (plan[f"{name}_memory"][which] + plan[f"{name}_maps"][which] for which in ("usual", "most"))
            growth = large[f"{name} 0"] - tiny[f"{name} 0"]
            said = (f"{flags} {transport} {name}: {growth / 1e6:.1f} MB beside {usual / 1e6:.1f} to {most / 1e6:.1f}")
            print(said)
            self.assertGreater(growth, 0.8 * usual, said)
            self.assertLess(growth, 1.1 * most, said)

    def test_mean(self):
        self.check("--optimizer=momentum")

    def test_narrow_wire_and_adam(self):
        self.check("--optimizer=adam", "--wire=bfloat16")

    def test_rule_on_distances(self):
        self.check("--optimizer=sgd", "--rule=krum")

    def test_shared_memory(self):
        self.check("--optimizer=momentum", transport="shm")

    def test_shared_memory_narrow_wire_and_adam(self):
        self.check("--optimizer=adam", "--wire=bfloat16", transport="shm")

    def test_shared_memory_rule_on_distances(self):
        self.check("--optimizer=sgd", "--rule=krum", transport="shm")


if __name__ == "__main__":
    cluster.main()
