"""Who joins a job: one that never comes is named, one that does not belong here is sent away."""

import cluster
import idx_data


class NeverComesTest(cluster.ClusterTest):
    def job(self, *flags, **counts):
        return cluster.Job(self, *cluster.SMALL, "--rounds=20", "--patience=1s", *flags, **counts)

    def test_worker(self):
        job = self.job(evaluators=1)
        for start, number in ((job.server, 0), (job.server, 1), (job.worker, 0)):
            start(number)
        job["server 0"].wait_for(r"has waited \S+ for worker 1, evaluator 0", 15)
        self.assertTrue(job["worker 0"].running())
        # Whoever comes late is welcome.
        job.worker(1)
        job["server 0"].wait_for(r"has waited \S+ for evaluator 0", 15)
        job.evaluator()
        self.assert_all_exit(job, 0)

    def test_server(self):
        job = self.job()
        for start, number in ((job.server, 0), (job.worker, 0), (job.worker, 1)):
            start(number)
        job["server 0"].wait_for(r"has waited \S+ for server 1", 15)
        job["worker 0"].wait_for(r"waits to be connected to server 1", 15)
        job.server(1)
        self.assert_all_exit(job, 0)

    def test_lead(self):
        job = self.job()
        job.server(1)
        job.worker(0)
        job.worker(1)
        for name in job.processes:
            job[name].wait_for(r"wait\S* .*(server 0|the lead)", 15)
        job.server(0)
        self.assert_all_exit(job, 0)

    def test_time_to_start_is_over(self):
        job = self.job("--start_timeout=3s")
        for start, number in ((job.server, 0), (job.server, 1), (job.worker, 0)):
            start(number)
        self.assert_all_exit(job, 3, 30)
        for name in job.processes:
            self.assertIn("worker 1", job[name].err)

    def test_lead_never_comes(self):
        job = self.job("--start_timeout=2s")
        job.server(1)
        job.worker(0)
        self.assert_all_exit(job, 3, 30)


class RefusedTest(cluster.ClusterTest):
    """One that does not belong here is told why; the job goes on when the right one comes."""

    def refused(self, job, wrong, words):
        self.assertEqual(wrong.wait(15), 5)
        for word in words:
            self.assertIn(word, wrong.err)
            self.assertIn(word, job["server 0"].err)

    def test_workers(self):
        job = cluster.Job(self, *cluster.SMALL, "--rounds=20")
        for start, number in ((job.server, 0), (job.server, 1), (job.worker, 0)):
            start(number)
        job["server 0"].wait_for("worker 0 is here")
        wrong = []
        for number, flag, words in (
            (0, "--threads=1", ["worker 0 already"]),
            (1, "--model=mlp:17", ["worker 1", "model=mlp:17", "model=mlp:16"]),
            (1, "--seed=2", ["worker 1", "seed=2", "seed=1"]),
            (1, "--wire=bfloat16", ["wire=bfloat16", "wire=float32"]),
            (1, "--job_id=other", ["job_id=other"]),
        ):
            with self.subTest(flag=flag):
                process = job.worker(number, flag)
                wrong.append(process)
                self.refused(job, process, words)
        self.assertTrue(job["worker 0"].running())
        job.worker(1)
        self.assert_all_exit(job, 0, except_for=[n for n, p in job.processes.items() if p in wrong])
        self.assertEqual(job.summary()["rounds"], 20)

    def test_server(self):
        job = cluster.Job(self, *cluster.SMALL, "--rounds=20")
        job.server(0)
        self.refused(job, job.server(1, "--model=mlp:17"), ["server 1", "model=mlp:17", "model=mlp:16"])
        job.server(1)
        job.worker(0)
        job.worker(1)
        self.assert_all_exit(job, 0, except_for=["server 1"])

    def test_another_number_of_samples(self):
        test = idx_data.make_samples(20, 9)
        for place, count in (("here", 100), ("there", 90)):
            idx_data.write_data(self.folder / place / "data", idx_data.make_samples(count, 1), test)
        here = {"cwd": self.folder / "here"}
        job = cluster.Job(self, "--data=idx:data", "--model=mlp:16", "--rounds=20", "--batch=8")
        for start, number in ((job.server, 0), (job.server, 1), (job.worker, 0)):
            start(number, **here)
        wrong = job.worker(1, cwd=self.folder / "there")
        self.refused(job, wrong, ["worker 1 has 90 training samples, this job 100"])
        job.worker(1, **here)
        self.assert_all_exit(job, 0, except_for=["worker 1"])


if __name__ == "__main__":
    cluster.main()
