"""What `parapet plan` says, beside what a real job takes."""

import json
import re
import time

import cluster

# 5,824,522 parameters, and so few that only what every server needs is left.
LARGE, TINY = "mlp:2048,2048", "mlp:2"
PARAMETERS = 784 * 2048 + 2048 + 2048 * 2048 + 2048 + 2048 * 10 + 10
WORKERS = 4


class PlanTest(cluster.ClusterTest):
    def peak(self, model, *flags):
        """The peak of server 0's memory [bytes], after some rounds."""
        job = cluster.Job(self, "--data=synthetic:784,10,1000", f"--model={model}", "--batch=1", "--rounds=12",
                          *flags, servers=2, workers=WORKERS, name=f"job-{len(self._processes)}")
        job.start()
        peak, pid = 0, job["server 0"].pid
        while job["server 0"].running():
            try:
                with open(f"/proc/{pid}/status") as status:
                    found = re.search(r"VmHWM:\s+(\d+) kB", status.read())
            except FileNotFoundError:
                break
            peak = max(peak, int(found[1]) * 1024 if found else 0)
            time.sleep(0.005)
        self.assert_all_exit(job, 0)
        return peak, job.summary()

    def plan(self, *flags):
        words = ("plan", f"--parameters={PARAMETERS}", f"--workers={WORKERS}", "--servers=2", *flags, "--json")
        process = self.call(*words)
        self.assertEqual(process.wait(), 0, process.err)
        return json.loads(process.out)

    def check(self, *flags):
        plan = self.plan(*flags)
        tiny, _ = self.peak(TINY, *flags)
        large, summary = self.peak(LARGE, *flags)
        self.assertEqual(summary["bytes_pushed"], summary["rounds"] * plan["bytes_pushed"])
        # The version of the beginning is published too.
        self.assertEqual(summary["bytes_published"], (summary["rounds"] + 1) * plan["bytes_published"])
        memory = plan["server_memory"]
        said = f"{flags}: {(large - tiny) / 1e6:.1f} MB beside {memory['usual'] / 1e6:.1f} to {memory['most'] / 1e6:.1f}"
        print(said)
        self.assertGreater(large - tiny, 0.8 * memory["usual"], said)
        self.assertLess(large - tiny, 1.1 * memory["most"], said)

    def test_mean(self):
        self.check("--optimizer=momentum")

    def test_narrow_wire_and_adam(self):
        self.check("--optimizer=adam", "--wire=bfloat16")

    def test_rule_on_distances(self):
        self.check("--optimizer=sgd", "--rule=krum")


if __name__ == "__main__":
    cluster.main()
