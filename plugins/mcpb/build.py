"""Write the bundle for Claude Desktop and others: python plugins/mcpb/build.py FOLDER

The same files give the same bytes.
"""

import json
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
FILES = ("manifest.json", "pyproject.toml", "server.py")
NO_TIME = (1980, 1, 1, 0, 0, 0)


def build(folder: Path) -> Path:
    """Write the bundle into a folder; return it."""
    manifest = json.loads((HERE / "manifest.json").read_text(encoding="utf-8"))
    target = folder / f"{manifest['name']}-{manifest['version']}.mcpb"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name in FILES:
            member = zipfile.ZipInfo(name, NO_TIME)
            member.compress_type = zipfile.ZIP_DEFLATED
            bundle.writestr(member, (HERE / name).read_bytes())
    return target


if __name__ == "__main__":
    sys.stdout.write(f"{build(Path(sys.argv[1] if len(sys.argv) > 1 else 'dist'))}\n")
