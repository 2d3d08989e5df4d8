"""Put what is known into a prompt for any model, within a budget of tokens.

python examples/prompt_context.py
"""

import tempfile

from perdure import Memory


def main(folder: str) -> None:
    """Print the block that goes before a user's question."""
    with Memory.local(folder) as memory:
        for said in ("I'm vegetarian.", "Please always answer in one sentence.", "My daughter Noa turned six in May."):
            memory.add(said, user_id="ana")
        question = "What could I cook for Noa's party?"
        print(memory.context(question, user_id="ana", max_tokens=200))
        print(f"\nUser: {question}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(temporary)
