"""Connections that break: they are opened again, and what was lost is sent again, once."""

import time

import cluster
import proxy

ROUNDS = 40


class BrokenLinksTest(cluster.ClusterTest):
    def proxied(self, job, **how):
        """Proxies before every server of a job, in order."""
        proxies = [proxy.Proxy(address, **how) for address in job.addresses]
        for each in proxies:
            self.addCleanup(each.close)
        return proxies

    def run_broken(self, *flags):
        """The summary of a job in which worker 1's connections break again and again."""
        job = cluster.Job(self, *cluster.LARGE, f"--rounds={ROUNDS}", *flags, evaluators=1, tcp=True)
        for server in range(job.servers):
            job.server(server)
        # A round carries 0.9 MB each way, half of it by each proxy: about every fourth round is hit.
        proxies = self.proxied(job, cut_every=4_000_000)
        job.worker(0)
        job.worker(1, addresses=[each.address for each in proxies])
        job.evaluator(0)
        self.assert_all_exit(job, 0)
        self.assertGreater(min(each.cuts for each in proxies), 3)
        self.assertIn("lost link", job["worker 1"].err)
        summary = job.summary()
        self.assertEqual(summary["left_out"], {})
        self.assertEqual(summary["rounds"], ROUNDS)
        self.assertIsNotNone(summary["test_accuracy"])
        return summary

    def check(self, *flags):
        expected = self.run_job(*cluster.LARGE, f"--rounds={ROUNDS}", *flags).summary
        self.assertEqual(self.run_broken(*flags)["weights_hash"], expected["weights_hash"])

    def test_same_bits(self):
        self.check("--chunk=16Ki")

    def test_same_bits_with_several_connections(self):
        self.check("--chunk=16Ki", "--connections=3", "--clip_norm=0.5")

    def test_link_between_servers(self):
        """With --clip_norm every round needs a word from each server to the lead, and one back."""
        flags = (*cluster.LARGE, "--rounds=120", "--clip_norm=0.5")
        expected = self.run_job(*flags).summary["weights_hash"]
        job = cluster.Job(self, *flags, tcp=True)
        job.server(0)
        # More than what is told again after a break, or it would never get further.
        between = proxy.Proxy(job.addresses[0], cut_every=60_000)
        self.addCleanup(between.close)
        job.server(1, addresses=[between.address, job.addresses[1]])
        for number in (0, 1):
            job.worker(number)
        self.assert_all_exit(job, 0)
        self.assertGreater(between.cuts, 1)
        self.assertIn("lost the connection to the lead", job["server 1"].err)
        self.assertEqual(job.summary()["weights_hash"], expected)

    def test_last_words_are_told_again(self):
        """What a worker told the lead was still on its way when the link broke, at the very end."""
        flags = (*cluster.SMALL, "--rounds=500")
        job = cluster.Job(self, *flags, servers=1, workers=1, tcp=True)
        job.server(0)

        def swallow(connections):
            # The first is for control: once the worker has been let in and opens another for data,
            # nothing that it tells the lead arrives. Gradients do.
            connections[0].swallow = len(connections) >= 2

        (between,) = self.proxied(job, on_accept=swallow)
        job.worker(0, addresses=[between.address])
        job["server 0"].wait_for(r"(?m)^round \d+/")
        time.sleep(2)
        self.assertTrue(job["server 0"].running(), "the job ended without the worker's last words")
        between.connections[0].cut()
        self.assert_all_exit(job, 0, 30)
        self.assertEqual(job.summary()["rounds"], 500)


if __name__ == "__main__":
    cluster.main()
