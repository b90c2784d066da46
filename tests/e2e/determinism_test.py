"""The same seed gives the same bits, however the job is spread; and the right numbers."""

import cluster
import idx_data
import tensors

ROUNDS = "--rounds=6"


class SameBitsTest(cluster.ClusterTest):
    def hash_of(self, *flags, **counts):
        return self.run_job(*cluster.LARGE, ROUNDS, *flags, **counts).summary["weights_hash"]

    def check_spread(self, *flags, **spreads):
        """The hash with these flags, the same for each spread over servers, chunks and connections."""
        expected = self.hash_of(*flags, servers=2)
        for servers, more in spreads.values():
            with self.subTest(servers=servers, more=more):
                self.assertEqual(self.hash_of(*flags, *more, servers=servers), expected)
        return expected

    def test_spread(self):
        expected = self.check_spread(
            again=(2, ()),
            one=(1, ()),
            five=(5, ()),
            leaf_chunks=(2, ("--chunk=16Ki",)),
            odd_chunks=(3, ("--chunk=48Ki",)),
            one_chunk=(2, ("--chunk=1Mi",)),
            connections=(2, ("--connections=3", "--chunk=16Ki")),
            threads=(2, ("--server_threads=2",)),
            tcp=(2, ("--transport=tcp",)),
            ipc=(2, ("--transport=ipc",)),
        )
        self.assertNotEqual(self.hash_of("--seed=2"), expected)

    def test_clip_norm(self):
        clip = "--clip_norm=0.5"
        expected = self.check_spread(
            clip, one=(1, ()), five=(5, ("--chunk=16Ki",)), threads=(3, ("--server_threads=2",))
        )
        self.assertNotEqual(self.hash_of(), expected, "nothing was clipped")

    def test_narrow_wire(self):
        hashes = {self.hash_of()}
        for wire in ("bfloat16", "float16"):
            flag = f"--wire={wire}"
            hashes.add(self.check_spread(flag, again=(2, ()), five=(5, ("--chunk=16Ki", "--connections=2"))))
        self.assertEqual(len(hashes), 3)

    def test_two_moments(self):
        self.check_spread("--optimizer=adam", "--lr=0.002", "--schedule=cosine", one=(1, ()), five=(5, ()))


class DataTest(cluster.ClusterTest):
    def write(self, name, samples):
        idx_data.write_data(self.folder / "data" / name, samples, self.test_samples)

    def setUp(self):
        self.test_samples = idx_data.make_samples(40, 9)

    def test_own_data_of_unequal_size(self):
        """Ten rounds of 10 and 10 + 10 + 10 + 7 samples: then the second worker has nothing left."""
        self.write("0", idx_data.make_samples(100, 1))
        self.write("1", idx_data.make_samples(37, 2))
        job = (f"--data=idx:{self.folder}/data/{{id}}", "--data_split=own", "--model=mlp:16", "--batch=10")
        job += ("--epochs=2",)
        hashes = set()
        for servers in (1, 2, 5):
            summary = self.run_job(*job, servers=servers, evaluators=1).summary
            self.assertEqual(summary["rounds"], 20)
            self.assertEqual(summary["samples"], 2 * 137)
            self.assertEqual(summary["left_out"], {}, "to have no sample is not to be missing")
            hashes.add(summary["weights_hash"])
        self.assertEqual(len(hashes), 1)

    def weights_of(self, name, *flags, **counts):
        folder, file = self.folder / f"snapshots-{name}", self.folder / f"{name}.safetensors"
        self.run_job(*flags, f"--snapshot_dir={folder}", **counts)
        exported = self.call("ckpt", "export", folder, file)
        self.assertEqual(exported.wait(), 0, exported.err)
        return tensors.read(file)

    def test_unequal_workers_give_the_weighted_mean(self):
        """10 and 7 samples of two workers are the 17 of one, but for how float32 sums are rounded."""
        samples = idx_data.make_samples(17, 3)
        self.write("0", samples[:10])
        self.write("1", samples[10:])
        self.write("all", samples)
        # Each takes all that it has in every round.
        job = ("--model=mlp:16", "--rounds=4", "--optimizer=sgd", "--lr=0.5")
        own = f"--data=idx:{self.folder}/data/{{id}}"
        spread = self.weights_of("two", *job, own, "--data_split=own", "--batch=10", workers=2)
        one = self.weights_of("one", *job, f"--data=idx:{self.folder}/data/all", "--batch=17", workers=1)
        start = self.weights_of("start", *job, "--lr=1e-30", f"--data=idx:{self.folder}/data/all", workers=1)
        self.assertGreater(tensors.distance(start, one), 0.05, "nothing was learnt")
        # Sums of at most 64 products of 2^-24 relative error, over four steps.
        self.assertLess(tensors.distance(spread, one), 1e-5)

    def test_workers_do_what_one_with_a_larger_batch_does(self):
        self.write("all", idx_data.make_samples(100, 4))
        data = f"--data=idx:{self.folder}/data/all"
        for model, optimizer in (("mlp:16", "adam"), ("mlp:16", "momentum"), ("cnn:small", "nesterov")):
            with self.subTest(model=model, optimizer=optimizer):
                job = (data, f"--model={model}", f"--optimizer={optimizer}", "--lr=0.01", "--epochs=2")
                three = self.weights_of(f"{model}-{optimizer}-3", *job, "--batch=10", workers=3)
                one = self.weights_of(f"{model}-{optimizer}-1", *job, "--batch=30", workers=1)
                self.assertLess(tensors.distance(three, one), 1e-3)


if __name__ == "__main__":
    cluster.main()
