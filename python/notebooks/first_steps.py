# %% [markdown]
# # First steps
#
# Two links, one stream over both, and what came of it. Open this file as a notebook in VS Code, or in
# Jupyter with jupytext, or run it: `python first_steps.py`. Needs `pip install './python[plot]'` and polars.

# %%
import os
import tempfile

import matplotlib.pyplot as plt
import polars as pl

import weftline as wl

QUICK = "WEFTLINE_QUICK" in os.environ
print(wl.__version__)

# %% [markdown]
# ## A scenario
#
# A path has a rate, or a trace of one, a one-way delay, loss, and a queue. The keys are those of a scenario
# file (docs/scenarios.md), and what is wrong is said in the same words.

# %%
links = wl.Scenario(
    "two-links",
    duration="3s" if QUICK else "20s",
    warmup="1s",
    paths=[
        wl.Path("wifi", rate="50Mbps", delay="5ms", loss=0.001),
        wl.Path("lte", rate="30Mbps", delay="35ms"),
    ],
)
try:
    links.replace(path__lte__loss=2)
except wl.ScenarioError as error:
    print(error)

# %% [markdown]
# ## A run
#
# A scheme carries the stream: `earliest` is what the daemons use. The record has what came of it, and the
# same scenario, scheme, control and seed give the same record everywhere.

# %%
run = wl.run(links, "earliest", congestion="bbr", seed=7, series=True)
print(f"{run.goodput_mbps:.1f} Mb/s, p99 of the delay {run.in_order_delay_ms.p99:.0f} ms, {run.digest}")
for name, path in run.paths.items():
    print(f"{name}: {path.goodput_mbps:.1f} Mb/s, {path.retransmitted_packets} packets sent again")

# %%
series = pl.DataFrame(run.series)
figure, axes = plt.subplots(figsize=(7, 2.5), layout="constrained")
axes.plot(series["time_s"], series["goodput_mbps"], label="both", linewidth=2)
for name in run.paths:
    axes.plot(series["time_s"], series[f"{name}.goodput_mbps"], label=name)
axes.set_xlabel("s")
axes.set_ylabel("Mb/s")
axes.legend()

# %% [markdown]
# ## Many runs
#
# A sweep varies schemes, controls, seeds, and any key. It writes a directory, goes on where it stopped, and
# is the program's `weftline sim sweep`, byte for byte. `single:*` is each path alone.

# %%
sweep = wl.Sweep(
    links,
    scheme=["earliest", "min-rtt", "linux-mptcp", "single:*"],
    congestion="bbr",
    seed=range(1, 4 if QUICK else 11),
    set={"path.wifi.loss": [0, 0.01, 0.03]},
)
folder = tempfile.TemporaryDirectory()
results = sweep.run(folder.name)
print(f"{len(results)} runs")
print(wl.ci95(results, "goodput_mbps", by=["scheme", "path.wifi.loss"]))

# %% [markdown]
# Ratios are taken seed by seed: what the radio did is the same for all schemes.

# %%
frame = pl.DataFrame(results.ratios()).group_by("scheme").agg(pl.col("to_sum").mean()).sort("to_sum")
print(frame)
assert frame.filter(pl.col("scheme") == "earliest")["to_sum"][0] > 0.85

# %% [markdown]
# The page of `weftline report`:

# %%
print(results.report())
folder.cleanup()
