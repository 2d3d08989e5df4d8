"""A process that says something and dies: `python -m tests.engine.chat.speaker FOLDER DIALECT COUNT HOW`.

With HOW `killed` nobody works on what is due, and the process ends by SIGKILL; with `working` it works and ends.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import cast

from perdure.engine.chat.settings import Dialect
from tests.engine.chat.talks import talk, world


async def speak(folder: Path, dialect: Dialect, count: int, how: str) -> None:
    async with world(folder) as opened:
        if how == "killed":
            await opened.remembering.close()
        for number in range(count):
            await opened.say(talk(f"of {how}", dialect), [f"I have a dog named Rex{how[0]}{number}"])
        if how == "killed":
            print("said", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        await opened.settle()


if __name__ == "__main__":
    asyncio.run(speak(Path(sys.argv[1]), cast("Dialect", sys.argv[2]), int(sys.argv[3]), sys.argv[4]))
