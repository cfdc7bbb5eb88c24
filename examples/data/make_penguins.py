"""Writes penguins.csv, a table as people have them, and penguins_truth.csv with the true species.

The measurements are those of 344 penguins of the Palmer Archipelago (K. B. Gorman and the Palmer
Station LTER; Horst, Hill and Gorman 2020, package `palmerpenguins`, CC0). The table has missing
values, dates, an id, a constant column and comments. About a seventh of the species are made wrong
here, by noise that depends on the measurements.

`pip install palmerpenguins && python examples/data/make_penguins.py`
"""

from importlib.resources import files
from pathlib import Path

import pandas as pd

import ptd_ext

FOLDER = Path(__file__).parent
NAMES = {
    "Region": "region",
    "Island": "island",
    "Date Egg": "egg_date",
    "Culmen Length (mm)": "bill_length_mm",
    "Culmen Depth (mm)": "bill_depth_mm",
    "Flipper Length (mm)": "flipper_length_mm",
    "Body Mass (g)": "body_mass_g",
    "Sex": "sex",
    "Comments": "comments",
}

raw = pd.read_csv(files("palmerpenguins") / "data" / "penguins-raw.csv")
raw = raw.sample(frac=1, random_state=0, ignore_index=True)
species = raw["Species"].str.split().str[0]
table = raw[list(NAMES)].rename(columns=NAMES)
table.insert(0, "id", [f"P{row:03}" for row in range(len(table))])

classes = sorted(species.unique())
sizes = table[[name for name in table if name.endswith(("_mm", "_g"))]]
sizes = ((sizes - sizes.mean()) / sizes.std()).fillna(0)
codes = species.map(classes.index)
noise = ptd_ext.instance_dependent_noise(sizes, codes, 0.13, random_state=4)
table.insert(1, "species", [classes[code] for code in noise.noisy_labels.tolist()])

table.to_csv(FOLDER / "penguins.csv", index=False)
pd.DataFrame({"id": table["id"], "species": species}).to_csv(
    FOLDER / "penguins_truth.csv", index=False
)
wrong = (table["species"] != species).sum()
print(f"{wrong} of {len(table)} labels are wrong")
