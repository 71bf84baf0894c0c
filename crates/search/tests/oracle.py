"""The other side of `oracle.rs`: searches simulated systems with the PyPI package MLRsearch.

Reads one JSON object a line from standard input and answers each with one a line on standard output. A request holds
a system (`systems/mod.rs` says what its kinds mean), a range of loads, goals, the trials that our search made of the
system (`replay`), and a second seed for systems that differ from trial to trial (`again`). The answer holds what the
package's search found (`goals`, and `trials` that it made), what its data base makes of our trials (`replayed`), and
what its search found with the second seed.
"""

import bisect
import json
import math
import struct
import sys

from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal
from MLRsearch.discrete_load import DiscreteLoad
from MLRsearch.discrete_result import DiscreteResult
from MLRsearch.goal_result import GoalResult
from MLRsearch.load_rounding import LoadRounding
from MLRsearch.measurement_database import MeasurementDatabase
from MLRsearch.target_spec import TargetSpec

MASK = (1 << 64) - 1


def remembered(function, name):
    """What a method without side effects said before, for the same object and argument: the package computes powers and
    hashes of nested objects again and again, which is a third of its time. Its answers stay its own."""

    def method(self, *args):
        said = self.__dict__.setdefault(name, {})
        if args not in said:
            said[args] = function(self, *args)
        return said[args]

    return method


LoadRounding.int2float = remembered(LoadRounding.int2float, "_said_int2float")
TargetSpec.__hash__ = remembered(TargetSpec.__hash__, "_said_hash")


def bits(x):
    """A float on its way to the other side, unrounded."""
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def draw(seed, n):
    x = (seed + (n + 1) * 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    x ^= x >> 31
    return (x >> 11) / float(1 << 53)


def trial(system, n, load, duration):
    c, x, y = system["c"], system["x"], system["y"]
    sent = float(math.floor(duration * load))
    u = draw(system["seed"], n)
    cap = float(math.floor(c * duration))
    kind = system["kind"]
    if kind == "sharp":
        received = min(sent, cap)
    elif kind == "soft":
        received = sent - math.floor(sent * (x * max(load - c, 0.0) / load))
    elif kind == "spikes":
        received = min(sent, cap) - (math.floor(sent * y) if u < x else 0.0)
    elif kind == "noisy":
        received = min(sent, math.floor(c * (1.0 + x * (2.0 * u - 1.0)) * duration))
    elif kind == "bistable":
        received = min(sent, math.floor((c * y if u < x else c) * duration))
    elif kind == "livelock":
        received = min(sent, math.floor(max(c - x * max(load - c, 0.0), 0.0) * duration))
    elif kind == "buffered":
        received = min(sent, math.floor(c * duration + c * x))
    elif kind == "lossy":
        received = min(sent - math.ceil(sent * x), cap)
    elif kind == "window":
        lost = math.ceil(sent * 0.02) if c * x <= load <= c * y else 0.0
        received = min(sent, cap) - lost
    else:
        raise ValueError(f"no such kind of system: {kind}")
    return int(sent), int(max(received, 0.0))


class Measurer(AbstractMeasurer):
    def __init__(self, system):
        self.system = system
        self.trials = []

    def measure(self, intended_duration, intended_load):
        sent, received = trial(self.system, len(self.trials), intended_load, intended_duration)
        self.trials.append((intended_load, intended_duration, sent, received))
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=sent,
            forwarding_count=received,
        )


class Loads:
    """Stands in for the package's rounding: exactly our loads are round."""

    def __init__(self, loads):
        self.loads = sorted(set(loads))

    def float2int(self, load):
        return min(bisect.bisect_left(self.loads, load), len(self.loads) - 1)

    def int2float(self, index):
        return self.loads[index]


def told(result):
    lower, upper = result.relevant_lower_bound, result.relevant_upper_bound
    throughput = None
    if lower:
        stat = next(iter(lower.target_to_stat.values()))
        throughput = float(lower) * (1.0 - stat.pessimistic_loss_ratio)
    return [
        bits(float(lower)) if lower else None,
        bits(float(upper)) if upper else None,
        bits(throughput) if lower else None,
    ]


def search(request, goals, system):
    measurer = Measurer(system)
    config = Config(
        goals=goals,
        min_load=request["min"],
        max_load=request["max"],
        search_duration_max=1e9,
        warmup_duration=request["warmup"] or None,
    )
    result = MultipleLossRatioSearch(config=config).search(measurer=measurer, debug=lambda _: None)
    return [told(result[goal]) for goal in goals], measurer.trials


def replay(request, goals):
    targets = tuple(
        TargetSpec(
            loss_ratio=goal.loss_ratio,
            exceed_ratio=goal.exceed_ratio,
            discrete_width=None,
            trial_duration=goal.final_trial_duration,
            duration_sum=goal.duration_sum,
            expansion_coefficient=2,
            fail_fast=False,
            preceding=None,
        )
        for goal in goals
    )
    loads = Loads([load for load, _, _, _ in request["replay"]])
    database = MeasurementDatabase(targets)
    for load, duration, sent, received in request["replay"]:
        database.add(
            DiscreteResult(
                intended_duration=duration,
                intended_load=load,
                offered_count=sent,
                forwarding_count=received,
                discrete_load=DiscreteLoad(rounding=loads, float_load=load),
            )
        )
    return [told(GoalResult.from_bounds(database.get_relevant_bounds(target))) for target in targets]


def answer(request):
    goals = [
        SearchGoal(
            loss_ratio=g["loss_ratio"],
            exceed_ratio=g["exceed_ratio"],
            relative_width=g["width"],
            initial_trial_duration=g["initial_trial_s"],
            final_trial_duration=g["final_trial_s"],
            duration_sum=g["duration_sum_s"],
            preceding_targets=2,
            expansion_coefficient=2,
            fail_fast=False,
        )
        for g in request["goals"]
    ]
    found, trials = search(request, goals, request["system"])
    again = None
    if request["again"] is not None:
        again, _ = search(request, goals, {**request["system"], "seed": request["again"]})
    trials = [[bits(load), bits(duration), sent, received] for load, duration, sent, received in trials]
    return {"goals": found, "trials": trials, "replayed": replay(request, goals), "again": again}


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))))
