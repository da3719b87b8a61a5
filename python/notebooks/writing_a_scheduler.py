# %% [markdown]
# # Writing a scheduler, and training one
#
# A scheduler in Python is asked for each segment. It runs at about a microsecond a call, and the same rule
# in Rust gives the same run, to the last event.

# %%
import os

import numpy as np

import weftline as wl
from weftline.gym import SchedulerEnv

QUICK = "WEFTLINE_QUICK" in os.environ

links = wl.Scenario(
    "two-links",
    duration="3s" if QUICK else "20s",
    warmup="500ms",
    workload="cbr:45Mbps",
    paths=[
        wl.Path("wifi", rate="40Mbps", delay="5ms", queue="4bdp"),
        wl.Path("lte", rate="30Mbps", delay="35ms", queue="4bdp"),
    ],
)

# %% [markdown]
# ## A rule of your own


# %%
class Fastest(wl.Picker):
    """The path of the largest window per round trip."""

    def pick(self, now, paths):
        return max((p for p in paths if p.has_room), key=lambda p: p.cwnd / p.srtt_s).index


class LowestRtt(wl.Picker):
    """The rule of MPTCP's default scheduler: `min-rtt`."""

    def pick(self, now, paths):
        return min((p for p in paths if p.has_room), key=lambda p: p.srtt_s).index


for scheme in (Fastest, LowestRtt, "min-rtt", "earliest"):
    run = wl.run(links, scheme, congestion="bbr", seed=1)
    print(f"{run.scheme:32} {run.goodput_mbps:5.1f} Mb/s  p95 {run.in_order_delay_ms.p95:6.1f} ms  {run.digest}")

# %% [markdown]
# `LowestRtt` and `min-rtt` have the same digest: the same events at the same nanoseconds.

# %%
assert wl.run(links, LowestRtt).digest == wl.run(links, "min-rtt").digest

# %% [markdown]
# ## Training one
#
# `SchedulerEnv` is a gymnasium environment: the action is the share of each path, the reward is goodput less
# the time for which the oldest byte waits. Any library that takes gymnasium environments trains in it; here
# the cross-entropy method in ten lines finds a constant split.

# %%
env = SchedulerEnv(links, congestion="bbr", step_s=0.1)


def episode(share, seed):
    env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        _, reward, terminated, truncated, _ = env.step(np.array([share, 1 - share], np.float32))
        total, over = total + reward, terminated or truncated
    return total


rng = np.random.default_rng(1)
mean, spread = 0.5, 0.25
for generation in range(3 if QUICK else 8):
    shares = np.clip(rng.normal(mean, spread, 6 if QUICK else 16), 0.02, 0.98)
    returns = np.array([episode(share, seed=generation) for share in shares])
    best = shares[np.argsort(returns)[-len(shares) // 3 :]]
    mean, spread = best.mean(), best.std() + 0.02
    print(f"generation {generation}: best {returns.max():7.2f}, WiFi's share {mean:.2f} ± {spread:.2f}")

# %% [markdown]
# WiFi carries 40 of 45 Mb/s at the most, LTE 30: a share of WiFi from a third to 0.85 fits, and what is best
# depends on the delay of both.

# %%
assert episode(mean, seed=99) > episode(0.1, seed=99)
print(env.run().in_order_delay_ms)
