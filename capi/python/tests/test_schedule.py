"""Schedules, the scaler, and the hooks: threads, memory, log."""
import array
import concurrent.futures
import ctypes
import gc
import math
import threading
import unittest
import weakref

import talus
from talus import _c, hooks


def one(rule="sgd", count=1, **hypers):
    opt = talus.Optimizer(rule, **hypers)
    data, grad = array.array("f", [0] * count), array.array("f", [1] * count)
    opt.add(data, grad)
    return opt, data, grad


class Schedules(unittest.TestCase):
    def test_keywords_come_from_the_library(self):
        made = talus.Schedule("cosine", T_max=10, eta_min=0.5)
        self.assertEqual((made.kind, made.get("T_max"), made.value(1, 0), made.value(1, 10)),
                         ("cosine", 10, 1, 0.5))
        with self.assertRaisesRegex(TypeError, "schedule/cosine has no 'tmax'; it has T_max, "):
            talus.Schedule("cosine", tmax=1)
        with self.assertRaisesRegex(talus.Error, "TALUS_E_NAME"):
            talus.Schedule("no_such")
        self.assertTrue(math.isnan(talus.Schedule("cosine").get("T_max")))

    def test_milestones(self):
        made = talus.Schedule("multistep", milestones=[2, 4], gamma=0.5)
        self.assertEqual((made.milestones, [made.value(1, t) for t in range(5)]),
                         ([2, 4], [1, 1, 0.5, 0.5, 0.25]))

    def test_pieces(self):
        whole = talus.sequential([talus.Schedule("constant", factor=0.5, total_iters=9),
                                  talus.Schedule("exponential", gamma=0.5)], [2])
        gc.collect()
        self.assertEqual([whole.value(1, t) for t in range(4)], [0.5, 0.5, 1, 0.5])
        self.assertEqual([piece.kind for piece in whole.pieces], ["constant", "exponential"])
        both = talus.chained([talus.Schedule("exponential", gamma=0.5) for _ in range(2)])
        self.assertEqual(both.value(1, 1), 0.25)

    def test_functions_live_as_long_as_the_schedule(self):
        class Half:
            def __call__(self, t):
                return 0.5**t

        function = Half()
        alive = weakref.ref(function)
        opt, data, _ = one(lr=1)
        opt.attach("lr", talus.of_function(function))
        del function
        gc.collect()
        opt.step()
        opt.step()
        self.assertEqual(data[0], -1.5)
        opt.schedule("lr").set_function(lambda t: 3)
        gc.collect()
        self.assertIsNone(alive())
        self.assertEqual(opt.value_now("lr"), 3)
        product = talus.of_function(lambda t: t, "multiplicative")
        self.assertEqual(product.value(1, 4), 24)

    def test_what_a_function_raises_comes_out_of_the_step(self):
        opt, data, _ = one()
        opt.attach("lr", talus.of_function(lambda t: 1 / t))
        for call in (opt.step, lambda: opt.value_now("lr")):
            with self.assertRaises(ZeroDivisionError):
                call()
        self.assertEqual((data[0], opt.steps(0)), (0, 0))
        with self.assertRaisesRegex(talus.Error, "TALUS_E_UNSUPPORTED"):
            talus.Schedule("constant").set_function(lambda t: 1)

    def test_clocks(self):
        opt, _, _ = one(lr=1)
        opt.attach("lr", talus.Schedule("exponential", gamma=0.5), clock="manual")
        opt.step()
        self.assertEqual((opt.value_now("lr"), opt.clock("applied"), opt.clock("called"),
                          opt.schedule_clock("lr")), (1, 1, 1, "manual"))
        opt.set_clock(3)
        self.assertEqual((opt.clock(), opt.value_now("lr")), (3, 0.125))
        self.assertIsNone(opt.schedule("momentum"))
        self.assertIsNone(opt.schedule_clock("momentum"))
        with self.assertRaisesRegex(TypeError, "clock 'x', known are applied, called, manual"):
            opt.attach("lr", None, clock="x")

    def test_plateau_hears_of_metrics(self):
        opt, _, _ = one(lr=1)
        opt.attach("lr", talus.Schedule("plateau", factor=0.5, patience=0))
        for metric in (1, 2, 3):
            opt.observe(metric)
        self.assertEqual(opt.value_now("lr"), 0.25)


class Scalers(unittest.TestCase):
    def test_scale_falls_where_gradients_are_not_finite_and_grows(self):
        with talus.Scaler(init_scale=4, growth_interval=2) as scaler:
            opt, data, grad = one(lr=1)
            opt.attach_scaler(scaler)
            for value, scale in ((4, 4), (math.inf, 2), (2, 2), (2, 4)):
                grad[0] = value
                opt.step()
                scaler.update()
                self.assertEqual(scaler.scale, scale)
            self.assertEqual((data[0], opt.stats().skipped, scaler.get("total_skips")), (-3, 1, 1))
        opt.step()  # attached, it serves on
        with self.assertRaisesRegex(TypeError, "scaler has no 'x'"):
            talus.Scaler(x=1)

    def test_somebody_elses_scale_is_read_by_each_step(self):
        opt, data, _ = one(lr=1)
        scale, found = array.array("f", [4]), array.array("f", [0])
        opt.bind_scale(scale, found)
        opt.step()
        found[0] = 1
        opt.step()
        self.assertEqual(data[0], -0.25)
        with self.assertRaises(BufferError):
            scale.append(1)
        opt.bind_scale(None)
        scale.append(1)
        with self.assertRaisesRegex(ValueError, "2 elements, expected 1"):
            opt.bind_scale(scale)


class Hooks(unittest.TestCase):
    COUNT = 1 << 18  # enough for several pieces

    def stepped(self, run):
        opt, data, grad = one("adamw", self.COUNT)
        opt.set_setting("threads", 4)
        grad[:] = array.array("f", [(i % 17 - 8) / 8 for i in range(self.COUNT)])
        opt.set_parallel_for(run)
        opt.step()
        opt.close()
        return data.tobytes()

    def test_steps_run_on_the_threads_of_the_host(self):
        expected, counts = self.stepped(None), []
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            def run(count, task):
                counts.append(count)
                list(pool.map(task, range(count)))
            self.assertEqual(self.stepped(run), expected)
        self.assertGreater(max(counts), 1)

    def test_what_the_host_leaves_out_is_done_and_what_it_raises_comes_out(self):
        ran = []
        task = _c.Task(lambda _context, i: ran.append(i))
        threads = []

        def one_of_them(_count, run_task):
            threads.append(threading.Thread(target=run_task, args=(2,)))
            threads[-1].start()

        hooks._parallel_for(one_of_them)(None, 5, task, None)
        self.assertEqual(sorted(ran), list(range(5)))
        threads[0].join()
        opt, data, _ = one("sgd", self.COUNT, lr=1)
        opt.set_setting("threads", 4)

        def twice(count, task):
            task(0)
            task(0)

        opt.set_parallel_for(twice)
        with self.assertRaisesRegex(talus.Error, "run before"):
            opt.step()
        self.assertEqual(set(data), {-1})  # the step was taken whole all the same

    def test_state_comes_from_the_allocator_of_the_host(self):
        taken, given = {}, []

        def alloc(size, alignment, _stream):
            memory = (ctypes.c_char * (size + alignment))()
            address = -(-ctypes.addressof(memory) // alignment) * alignment
            taken[address] = memory, size
            return address

        opt, _, _ = one("adamw")
        opt.set_allocator(alloc, lambda address, size, _stream: given.append((address, size)))
        opt.step()
        self.assertTrue(any(state.data in taken for state in opt.states()))
        with self.assertRaisesRegex(talus.Error, "TALUS_E_STATE"):
            opt.set_allocator(alloc, lambda *_: None)
        opt.close()
        self.assertEqual(sorted(given), sorted((at, size) for at, (_, size) in taken.items()))

    def test_an_allocator_without_memory_fails_the_step(self):
        opt, data, _ = one("adamw")
        opt.set_allocator(lambda *_: None, lambda *_: None)
        with self.assertRaisesRegex(talus.Error, "TALUS_E_MEMORY"):
            opt.step()
        self.assertEqual(data[0], 0)

    def test_the_log_of_the_process(self):
        lines = []

        class Listener:
            def __call__(self, level, text):
                lines.append((level, text))

        listener = Listener()
        alive = weakref.ref(listener)
        talus.set_log(listener, talus.LOG_INFO)
        self.addCleanup(talus.set_log, None)
        del listener
        gc.collect()
        one("adamw")[0].step()
        self.assertEqual({level for level, _ in lines}, {talus.LOG_INFO})
        self.assertIn("adamw", lines[0][1])
        talus.set_log(None)
        heard = len(lines)
        one("adamw")[0].step()
        self.assertEqual((len(lines), alive()), (heard, None))


if __name__ == "__main__":
    unittest.main()
