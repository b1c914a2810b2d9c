"""Install a wheel in a new environment and import it there: an empty wheel must not ship.

The packages it depends on come from the environment that runs this script, through PYTHONPATH, so
that nothing is downloaded. Files named `*.pth` are not read from PYTHONPATH: the editable install
of the working tree stays out of sight and the import can only find the wheel.
"""

import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

PROBE = """
import sys
from pathlib import Path
import remask

home = Path(remask.__file__).parent
if Path(sys.prefix).resolve() not in home.resolve().parents:
    sys.exit(f"remask was imported from {home}, not from the wheel.")
wanted = ["py.typed", "report/assets/report.html", "report/web/dom.js", "serve/page/index.html"] + [
    f"denoisers/embedded/{name}"
    for name in ("config.json", "generation_config.json", "tokenizer.json", "model.safetensors")
]
missing = [name for name in wanted if not (home / name).is_file()]
if missing:
    sys.exit(f"the wheel lacks {', '.join(missing)}.")
from remask.denoisers.load import load
load("tiny")
"""


def main(wheel: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=False)
        python = Path(folder) / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", "--no-deps", str(wheel)], check=True)
        packages = {**os.environ, "PYTHONPATH": sysconfig.get_paths()["purelib"]}
        found = subprocess.run([python, "-c", PROBE], cwd=folder, env=packages, check=False)
    if found.returncode:
        sys.exit(found.returncode)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
