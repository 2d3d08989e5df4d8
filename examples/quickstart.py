"""Tell a memory something, correct it, ask: no key, no server.

python examples/quickstart.py [FOLDER]
"""

import sys
import tempfile

from perdure import Memory


def main(folder: str) -> None:
    """Tell three things on three days, and ask about them."""
    with Memory.local(folder) as memory:
        memory.add("I live in Lisbon and I'm allergic to nuts.", user_id="ana", timestamp="2026-01-05")
        memory.add("My sister Rita plays the cello.", user_id="ana", timestamp="2026-01-09")
        memory.add("I moved to Porto last week.", user_id="ana", timestamp="2026-03-02")
        for question in ("where do I live?", "what am I allergic to?", "who plays the cello?"):
            print(f"{question}  {memory.search(question, user_id='ana').results[0].memory}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(sys.argv[1] if len(sys.argv) > 1 else temporary)
