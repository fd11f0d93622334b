"""train_digits_cuda gives every bit of train_digits: what it prints, its losses, its parameters.

    check_digits_cuda.py TRAIN_DIGITS TRAIN_DIGITS_CUDA    at a tiny size, on the emulated runtime
"""

import os
import random
import subprocess
import sys
import tempfile
import unittest

host, device = sys.argv[1:3]
IMAGES = 36  # a third is trained on


def train(program, folder, *args):
    """What it prints, its log and its parameters."""
    log, saved = (os.path.join(folder, name) for name in ("log.csv", "parameters"))
    command = [program, "--data", os.path.join(folder, "tiny.csv"), "--epochs", "2", "--batch", "6",
               "--log", log, "--parameters", saved, *args]
    result = subprocess.run(command, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr.decode()
    with open(log, "rb") as losses, open(saved, "rb") as parameters:
        return result.stdout, losses.read(), parameters.read()


class Digits(unittest.TestCase):
    def test_a_device_gives_the_bits_of_the_cpu(self):
        draw = random.Random(1)
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "tiny.csv"), "w", encoding="utf-8") as file:
                for i in range(IMAGES):
                    pixels = ",".join(str(draw.randint(0, 16)) for _ in range(64))
                    file.write(f"{pixels},{i % 10}\n")
            for args in [], ["--dtype", "bf16"], ["--optimizer", "sgd", "--dtype", "f16"]:
                with self.subTest(args=args):
                    self.assertEqual(train(device, folder, *args), train(host, folder, *args))
            untrained = train(host, folder, "--set", "lr=0")[2]
            self.assertNotEqual(train(device, folder)[2], untrained)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
