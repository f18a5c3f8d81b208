"""Compare the pinned versions with the known vulnerabilities, by pip-audit.

python -m scripts.vulnerabilities PYTHON   (a Python that has pip-audit)

Exits with 0 if the service knows none, with 1 if it knows some, and with 3 if it could not be asked about every
version: then nothing is known about these.
"""

from __future__ import annotations

import json
import subprocess
import sys

from scripts.lock import COULD_NOT_ASK, PINS


def main() -> int:
    command = [sys.argv[1], "-m", "pip_audit", "--requirement", str(PINS), "--no-deps", "--disable-pip"]
    options = ["--format", "json", "--progress-spinner", "off", "--timeout", "30"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    try:
        asked = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):  # pip-audit exits with 1 in both cases; only an answer is JSON
        last = (done.stderr.strip().splitlines() or [f"pip-audit ended with {done.returncode}"])[-1]
        print(f"NOT CHECKED: the vulnerability service could not be asked ({last[:300]})", file=sys.stderr)
        return COULD_NOT_ASK
    # Where the service does not answer about a package, pip-audit skips it and reports success.
    skipped = [entry for entry in asked if "skip_reason" in entry]
    found = [
        f"{entry['name']} {entry['version']}: {bug['id']}, fixed in {', '.join(bug['fix_versions']) or 'no version'}"
        for entry in asked
        for bug in entry.get("vulns", [])
    ]
    if len(skipped) < len(asked):
        clear = f"no known vulnerability in {len(asked) - len(skipped)} of {len(asked)} pinned versions"
        print("\n".join(found) or clear)
    if skipped:
        names = ", ".join(entry["name"] for entry in skipped[:5])
        said = f"{len(skipped)} versions, e.g. {names} ({skipped[0]['skip_reason'][:200]})"
        print(f"NOT CHECKED: the vulnerability service did not answer about {said}", file=sys.stderr)
    return 1 if found else COULD_NOT_ASK if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
