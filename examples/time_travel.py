"""See what was believed and when, and take a change back.

python examples/time_travel.py
"""

import tempfile

from perdure import Memory


def main(folder: str) -> None:
    """Change a fact by hand, look at its past, and undo the change."""
    with Memory.local(folder) as memory:
        told = memory.add("My budget for the trip is 900 euros.", user_id="ana", timestamp="2026-01-05").results[0]
        memory.update(told.id, "User's budget for the trip is 1200 euros")
        for record in memory.history(told.id):
            print(f"{record.event}: {record.new_value}")
        memory.undo(memory.history(told.id)[-1].id)
        print(f"undone: {memory.get(told.id).memory}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(temporary)
