# %% [markdown]
# # Reproducing a figure
#
# FBDT's Fig. 6c and 6e: throughput over WiFi and WiGig of a client in motion, under MPTCP, MuSher and FBDT.
# The gallery does the same for every figure: `python -m weftline.figures results --run quick`.

# %%
import os
import pathlib
import tempfile

import matplotlib.pyplot as plt

import weftline as wl
from weftline import figures
from weftline.figures import fbdt
from weftline.figures.verdict import above, ratios

QUICK = "WEFTLINE_QUICK" in os.environ
folder = tempfile.TemporaryDirectory()
root = pathlib.Path(folder.name)

# %% [markdown]
# ## The runs
#
# WiGig is generated: line of sight, a body in the way, blocked, with the means and spreads that the paper
# reports. Each seed is another course of events, the same for all schemes.

# %%
sweep = wl.Sweep(
    "fbdt-6c-mobility",
    scheme=["single:wifi", "single:wigig", "linux-mptcp", "musher", "fbdt"],
    seed=range(1, 3 if QUICK else 11),
    duration="4s" if QUICK else "60s",
    warmup="1s",
    name="fbdt-6c",
)
results = sweep.run(root / "sim" / "fbdt-6c", series=True)
print(wl.ci95(results, "goodput_mbps", by=["scheme"]))

# %% [markdown]
# ## Claims are tested on pairs
#
# "FBDT can achieve the summation of the individual rates": the ratio of each run of `fbdt` to the sum of the
# paths alone with the same seed, and the interval of these.

# %%
to_sum = [one["to_sum"] for one in results.ratios() if one["scheme"] == "fbdt"]
print(above("FBDT ÷ sum", to_sum, 0.95).judge())


def goodputs(scheme):
    return [(run["seed"], run["goodput_mbps"]) for run in results if run["scheme"] == scheme]


print(above("FBDT ÷ MPTCP", ratios(goodputs("fbdt"), goodputs("linux-mptcp")), 1).judge())

# %% [markdown]
# ## The distribution over seconds, as Fig. 6e

# %%
figure, axes = plt.subplots(figsize=(5, 2.8), layout="constrained")
runs = fbdt.seconds(results, "fbdt-6c-mobility")
for scheme in dict.fromkeys(results["scheme"]):
    axes.ecdf([second for (name, _), run in runs.items() if name == scheme for second in run], label=scheme)
axes.set_xlabel("goodput of a second, Mb/s")
axes.legend(fontsize=7)

# %% [markdown]
# ## And as the gallery draws it

# %%
for drawn in figures.draw_all(root, root / "figures", ["fbdt-6c", "fbdt-6e", "fbdt-3b"]):
    print(drawn.file.name, drawn.missing or "drawn")
folder.cleanup()
