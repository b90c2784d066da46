"""What `parapet rules`, `parapet aggregate` and `parapet bench rules` print, and that docs/rules.md has the same table."""

import json
import struct

import cluster


def npy(rows):
    """A .npy file of float64 rows, as NumPy writes it."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}"
    header += " " * ((-len(header) - 11) % 64) + "\n"
    values = b"".join(struct.pack("<d", value) for row in rows for value in row)
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + values


class RulesTest(cluster.ClusterTest):
    def test_the_page_has_the_table(self):
        table = self.call("rules", "--markdown").out
        self.assertGreater(len(table.splitlines()), 20)
        self.assertIn(table, (cluster.ROOT / "docs/rules.md").read_text(), "update docs/rules.md: parapet rules --markdown")

    def test_json_lists_every_rule(self):
        names = [rule["name"] for rule in json.loads(self.call("rules", "--json").out)]
        self.assertEqual(len(names), 23)
        for name in ("trimmed_mean", "krum", "nnm"):
            self.assertIn(name, names)

    def test_aggregate(self):
        path = self.folder / "x.npy"
        path.write_bytes(npy([[0], [1], [6], [9], [float("nan")], [13]]))
        words = ("aggregate", f"--input={path}", "--rule=krum", "--byzantine=1")
        process = self.call(*words, "--explain")
        self.assertEqual(process.wait(), 0, process.err)
        # Without the NaN: five rows, none of which lies.
        value, explanation = process.out.splitlines()
        self.assertEqual(value, "6")
        self.assertEqual(json.loads(explanation)["selected"], [2])
        self.assertIn("row 4 is left out", process.err)
        refused = self.call(*words[:-1], "--byzantine=2")
        self.assertEqual(refused.wait(), 2)
        self.assertIn("needs at least 7 workers", refused.err)

    def test_bench(self):
        words = ("bench", "rules", "--n=4,30", "--d=20000", "--byzantine=1", "--json")
        process = self.call(*words, "--rules=mean;krum;nnm + trimmed_mean;bulyan", "--memory=2000000", "--threads=2")
        self.assertEqual(process.wait(), 0, process.err)
        rows = json.loads(process.out)
        # n=4 is too few for krum and bulyan; 30 x 20000 x 4 bytes are too many.
        rules = [row for row in rows if not row["rule"].startswith("(")]
        self.assertEqual([row["rule"] for row in rules], ["mean", "nnm + trimmed_mean"])
        self.assertEqual({row["f"] for row in rules}, {1})
        parts = [row["rule"] for row in rows if row not in rules]
        self.assertEqual(parts, ["(plain sum)", "(memcpy)", "(distances)", "(mean, momentum, publish)"])
        for row in rows:
            self.assertEqual((row["n"], row["d"], row["threads"]), (4, 20000, 2))
            for field in ("seconds", "gbytes_per_second", "ratio_to_mean", "share_of_read"):
                self.assertGreater(row[field], 0, field)
        self.assertEqual(rows[0]["share_of_read"], 1)
        for words in ("krum at n=4 is left out", "bulyan at n=4 is left out", "n=30, d=20000 is left out"):
            self.assertIn(words, process.err)


if __name__ == "__main__":
    cluster.main()
