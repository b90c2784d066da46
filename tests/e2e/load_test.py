"""parapet load: traffic against real servers, checked and measured."""

import json
import os
import signal
import time
import xml.dom.minidom

import cluster

# Several chunks on each of two servers.
SIZE = ("--parameters=131072", "--chunk=16Ki")


class LoadTest(cluster.ClusterTest):
    def load(self, *flags, code=0):
        process = self.start("load", cluster.parapet("load", *flags))
        self.assertEqual(process.wait(), code, process.err[-3000:] + process.out[-3000:])
        return process

    def report(self, *flags):
        return json.loads(self.load("--json", *flags).out)

    def assert_clean(self, report, repeats=False):
        checks = report["checks"]
        for what in ("lost", "torn", "wrong", *(() if repeats else ("repeated",))):
            self.assertEqual(checks[what], 0, what)

    def test_closed_loop(self):
        plot = self.folder / "load.svg"
        for transport in ("ipc", "tcp", "shm"):
            report = self.report(
                "--servers=2", "--workers=8", *SIZE, "--rounds=60", "--check=full", f"--transport={transport}",
                f"--plot={plot}",
            )  # fmt: skip
            self.assert_clean(report)
            self.assertEqual(report["rounds"], 60)
            self.assertEqual(report["checks"]["all_rounds"], 8 * 65)
            self.assertEqual(report["latency_ms"]["round"]["count"], 8 * 60)
            self.assertEqual(report["latency_ms"]["push_ack"]["count"], 8 * 60 * 8)
            self.assertGreater(report["goodput_gbytes_per_second"]["push"], 0)
            self.assertEqual([server["exit_code"] for server in report["servers"]], [0, 0])
            for server in report["servers"]:
                self.assertGreater(server["peak_bytes"], 1 << 20)
            svg = xml.dom.minidom.parse(str(plot)).documentElement
            self.assertEqual(len(svg.getElementsByTagName("polyline")), 5)

    def test_shared_memory_is_the_default_of_own_servers(self):
        report = self.report("--servers=2", "--workers=3", *SIZE, "--rounds=20")
        self.assertEqual(report["settings"]["transport"], "shm")
        self.assertGreater(report["servers"][0]["shared_bytes"], 0)

    def test_tensors_of_a_file_or_of_skewed_sizes(self):
        tensors = [{"name": "head", "shape": [300, 200]}, {"name": "bias", "shape": [17]}, {"name": "body", "shape": [70000]}]
        layout = self.folder / "layout.json"
        layout.write_text(json.dumps(tensors))
        for flags in ((f"--layout={layout}",), ("--parameters=130017", "--tensors=40", "--skew=1.5")):
            report = self.report(
                "--servers=2", "--workers=3", *flags, "--chunk=16Ki", "--rounds=15", "--check=full", "--backward=4ms"
            )  # fmt: skip
            self.assert_clean(report)
            self.assertEqual(report["settings"]["parameters"], 130017)
            # The last tensor of the pass is there at its end.
            self.assertGreater(report["latency_ms"]["last_weights"]["p50"], 4)

    def test_narrow_wires(self):
        for wire in ("bfloat16", "float16"):
            self.assert_clean(
                self.report("--servers=2", "--workers=3", *SIZE, "--rounds=20", "--check=full", f"--wire={wire}")
            )

    def test_open_loop_keeps_the_rate(self):
        report = self.report("--servers=2", "--workers=8", *SIZE, "--rate=20", "--duration=2s")
        self.assert_clean(report)
        # The machine may be busy, but never too fast.
        self.assertLess(report["rounds_per_second"], 21)
        self.assertGreater(report["rounds"], 10)

    def test_open_loop_shows_what_is_late(self):
        """At a rate that nobody keeps, each round is later than the one before."""
        report = self.report("--servers=1", "--workers=2", *SIZE, "--rate=100000", "--rounds=300")
        latency = report["latency_ms"]
        self.assertGreater(latency["round"]["p50"], 10 * latency["last_weights"]["p50"])

    def test_attackers_under_a_robust_rule(self):
        for rule, attack in (("trimmed_mean", "sign_flip"), ("nnm + trimmed_mean", "alie"), ("median", "equivocate")):
            report = self.report(
                "--servers=2", "--workers=8", *SIZE, "--rounds=30", f"--rule={rule}", "--byzantine=2",
                "--attackers=2", f"--attack={attack}",
            )  # fmt: skip
            self.assert_clean(report, repeats=attack == "equivocate")
            self.assertEqual(report["rounds"], 30)
            if attack == "equivocate":
                self.assertGreater(report["checks"]["refusals"]["equivocation"], 0)

    def test_the_sum_is_known_whatever_attackers_do(self):
        for attack in ("scale", "alie", "nan", "label_flip", "equivocate", "replay", "flood"):
            report = self.report(
                "--servers=2", "--workers=6", *SIZE, "--rounds=15", "--check=full", "--attackers=2", f"--attack={attack}",
                "--round_deadline=1s",
            )  # fmt: skip
            self.assert_clean(report, repeats=True)
            self.assertEqual(report["rounds"], 15)

    def test_rounds_go_on_without_who_never_pushes(self):
        for attack in ("silent", "partial"):
            report = self.report(
                "--servers=2", "--workers=6", *SIZE, "--rounds=15", "--check=full", "--attackers=2", f"--attack={attack}",
                "--round_deadline=1s",
            )  # fmt: skip
            self.assert_clean(report)
            self.assertEqual(report["rounds"], 15)
            self.assertEqual(report["checks"]["attackers_sent_away"], 2)

    def test_malformed_traffic_hurts_nobody(self):
        report = self.report("--servers=2", "--workers=8", *SIZE, "--duration=2s", "--malformed=100")
        self.assert_clean(report)
        malformed = report["malformed"]
        self.assertGreater(malformed["sent"], 50)
        answered = sum(malformed["refused"].values()) + malformed["cut_off"]
        # Those of the last moment may have had none yet.
        self.assertGreater(answered, malformed["sent"] * 0.8)
        self.assertEqual(report["checks"]["refusals"], {})
        # Servers count what they refused, and so at least what the senders were told.
        for code, count in malformed["refused"].items():
            self.assertGreaterEqual(sum(server["refusals"].get(code, 0) for server in report["servers"]), count, code)

    def test_slow_readers_and_stragglers(self):
        report = self.report(
            "--servers=2", "--workers=8", *SIZE, "--rounds=20", "--slow_readers=0.25,10ms",
            "--stragglers=0.25,10ms,lognormal",
        )  # fmt: skip
        self.assert_clean(report)
        self.assertGreater(report["latency_ms"]["round"]["p50"], 5)

    def test_two_processes_of_one_job(self):
        job = cluster.Job(
            self,
            *("--model=flat:131072", "--data=synthetic:1,2,5", f"--train_samples={6 << 20}", "--batch=1"),
            *("--rounds=35", "--optimizer=sgd", f"--lr={1 / 1024}", "--job_id=load", "--chunk=16Ki"),
            workers=6,
        )
        for index in range(2):
            job.server(index)
        flags = ("--json", "--workers=6", *SIZE, "--rounds=30", "--check=full", f"--servers={','.join(job.addresses)}")
        players = [
            self.start(f"load {first}", cluster.parapet("load", *flags, f"--first_worker={first}", "--players=3"))
            for first in (0, 3)
        ]
        for process in players:
            self.assertEqual(process.wait(), 0, process.err)
            report = json.loads(process.out)
            self.assert_clean(report)
            self.assertEqual(report["rounds"], 30)
        self.assert_all_exit(job, 0)

    def test_another_job_is_refused_with_what_would_fit(self):
        job = cluster.Job(self, *cluster.SMALL, "--rounds=3", workers=2)
        for index in range(2):
            job.server(index)
        process = self.load("--workers=2", *SIZE, f"--servers={','.join(job.addresses)}", code=1)
        self.assertRegex(process.err, r"a player: server 0 refuses this process: worker 0 has another job: it has job_id=load")
        self.assertIn("--model=flat:131072", process.err)

    def test_stops_and_reports_when_asked(self):
        argv = cluster.parapet("load", "--json", "--servers=2", "--workers=4", *SIZE, "--duration=10m")
        process = self.start("load", argv)
        servers = cluster.wait_until(
            lambda: len(children := cluster.children_of(process.pid)) == 2 and children, cluster.PATIENCE, "servers"
        )
        time.sleep(0.5)
        process.send(signal.SIGINT)
        self.assertEqual(process.wait(), 0, process.err)
        report = json.loads(process.out)
        self.assert_clean(report)
        self.assertGreater(report["rounds"], 0)
        self.assertFalse([pid for pid in servers if cluster.is_running(pid)])

    def test_a_server_that_dies_ends_the_test(self):
        process = self.start("load", cluster.parapet("load", "--servers=2", "--workers=4", *SIZE, "--duration=10m"))
        servers = cluster.wait_until(
            lambda: len(children := cluster.children_of(process.pid)) == 2 and children, cluster.PATIENCE, "servers"
        )
        time.sleep(0.5)
        os.kill(servers[1], signal.SIGKILL)
        self.assertEqual(process.wait(), 1, process.err)
        self.assertRegex(process.err, r"server \d ended with code 137")
        self.assertFalse([pid for pid in servers if cluster.is_running(pid)])

    def test_limits(self):
        job = ("--servers=1", "--workers=2", "--parameters=16384", "--rounds=20")
        self.load(*job, "--max_p99=1h", "--min_goodput=0.000001")
        broken = self.load(*job, "--max_p99=1us", "--min_goodput=1000", code=1)
        self.assertIn("above --max_p99=1us", broken.err)
        self.assertIn("below --min_goodput=1000", broken.err)

    def test_refused_in_words(self):
        self.assertIn("two servers", self.load("--workers=4", "--attackers=1", "--attack=partial", code=2).err)
        self.assertIn("--players=N", self.load("--workers=3000", code=2).err)


if __name__ == "__main__":
    cluster.main()
