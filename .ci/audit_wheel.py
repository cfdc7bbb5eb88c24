"""Shows what a wheel holds, and fails if it could not run where it claims to: audit_wheel.py WHEEL.

* The operators must not refer to Python: one library then serves every version of it, and every
  torch from 2.10 on by torch's stable ABI. Only `_C`, built per Python, may.
* Nothing but the package and its metadata may be inside.
"""

import re
import sys
import zipfile

PYTHON_SYMBOL = re.compile(rb"\x00_?Py[A-Z_][A-Za-z_]+\x00")

path = sys.argv[1]
faults = []
with zipfile.ZipFile(path) as wheel:
    for entry in wheel.infolist():
        if not re.match(r"ptd_ext(-[\d.]+\.dist-info|\.libs)?/", entry.filename):
            faults.append(f"{entry.filename} does not belong into a wheel of ptd_ext")
        if entry.filename.endswith(".so"):
            print(f"{entry.filename}  {entry.file_size / 2**20:.2f} MB")
            if "_ops_" in entry.filename and PYTHON_SYMBOL.search(wheel.read(entry)):
                faults.append(f"{entry.filename} refers to symbols of Python")
    if not any(entry.endswith("_ops_cpu.so") for entry in wheel.namelist()):
        faults.append("_ops_cpu.so is missing")
sys.exit("\n".join(faults) if faults else None)
