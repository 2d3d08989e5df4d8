"""Micro-batching: texts of concurrent callers share a run of a local model.

A run over eight short texts costs two thirds of eight runs (benchmarks/encoder.py). Nobody waits for company: a request
starts at once if a runner is free, and requests that arrive while all are busy are combined. A single text is a query
and goes before lists, which are cut into short runs. If lists hold all runners, one more runner takes the queries, so
that a search does not wait for an import.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakSet

from perdure.backends.blocking import start_blocking
from perdure.domain.errors import EmbeddingError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_JOBS = 16  # requests in one run at most
RUN_TOKENS = 96
"""Tokens in one run, padding included, unless a single text is longer: some 25 ms of MiniLM on one core, so long may a
request wait for a run that has begun. Runs of any length would save a twentieth (benchmarks/encoder.py --sweep)."""

QUERY_TURNS = 8
"""Runs of queries in a row, after which a waiting list gets one: it is late under load, but never left out."""

TOKENIZE_AT_ONCE = 32  # texts of lists that are tokenized between two runs
Tokens = list[list[int]]
Tokenize = Callable[[str], list[int]]
Run: TypeAlias = "Callable[[Tokens], NDArray[np.float32]]"
Cut = Callable[[Sequence[int]], list[list[int]]]
"""From the token counts of texts to the positions that are read together, one list for each run."""


def usable_cores() -> int:
    """Return the number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Job:
    """The texts of one request, the vectors found so far, and its callers."""

    __slots__ = ("future", "is_settled", "loop", "run", "runs", "texts", "tokens", "vectors")

    def __init__(self, texts: Sequence[str], dimension: int, run: Run) -> None:
        import numpy as np

        self.texts = texts
        self.run = run
        self.vectors = np.empty((len(texts), dimension), dtype=np.float32)
        self.tokens: Tokens = []
        self.runs: deque[list[int]] = deque()
        """Positions of the texts of each run to come; empty until all texts are tokenized."""
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[NDArray[np.float32]] = self.loop.create_future()
        self.is_settled = False

    @property
    def is_over(self) -> bool:
        """Whether nobody waits any more: settled, cancelled, or its event loop is gone."""
        return self.is_settled or self.future.done() or self.loop.is_closed()

    def tokenize(self, tokenize: Tokenize, cut: Cut) -> None:
        """Tokenize the next texts, and cut all of them into runs when they are complete."""
        done = len(self.tokens)
        self.tokens += [tokenize(text) for text in self.texts[done : done + TOKENIZE_AT_ONCE]]
        if len(self.tokens) == len(self.texts):
            self.runs.extend(cut([len(ids) for ids in self.tokens]))

    def next_tokens(self) -> Tokens:
        """Return the token ids of the next run."""
        return [self.tokens[position] for position in self.runs[0]]

    def keep(self, vectors: NDArray[np.float32]) -> None:
        """Store the vectors of the next run, and go to the one after."""
        self.vectors[self.runs.popleft()] = vectors


Outcome = tuple[_Job, BaseException | None]


class MicroBatcher:
    """The queue of a local model, for any number of threads and event loops.

    Every request brings the same `run`, which returns vectors of shape (n, dimension) for n lists of token ids; up to
    `runners` threads and one more call it. The batcher does not keep it, so that a model is freed with its last user. A
    list (`embed_batch`) uses one runner at a time, and so one core. `run_cost` is the padding, in tokens, up to which a
    text joins a run, None for a model that needs no padding; without `merges` every request has its own runs.
    """

    def __init__(
        self,
        tokenize: Tokenize,
        cut: Cut,
        *,
        dimension: int,
        run_cost: float | None,
        runners: int | None = None,
        merges: bool = True,
    ) -> None:
        self._tokenize, self._cut = tokenize, cut
        self._dimension = dimension
        self._run_cost = run_cost
        self._runners = runners or usable_cores()
        self._most_jobs = MOST_JOBS if merges else 1
        self.stale = False  # whether the process forked while the model ran: the copy in the child must not be used
        self._reset()
        _batchers.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._queries: deque[_Job] = deque()
        self._lists: deque[_Job] = deque()
        self._active = 0  # runners that take whatever waits
        self._on_lists = 0  # those of them that are at a list
        self._has_extra = False  # whether there is one more, for queries alone
        self._query_turns = 0

    def after_fork(self) -> None:
        """Reset in a forked child, which has none of the threads and callers."""
        self.stale = self.stale or self._active > 0 or self._has_extra
        self._reset()

    async def embed(self, text: str, run: Run) -> NDArray[np.float32]:
        """Return the vector of one text, of shape (dimension,), before all waiting lists."""
        import numpy as np

        return np.asarray((await self._ask(_Job([text], self._dimension, run)))[0], dtype=np.float32)

    async def embed_batch(self, texts: Sequence[str], run: Run) -> NDArray[np.float32]:
        """Return vectors of shape (len(texts), dimension), in order; a single text counts as a query."""
        import numpy as np

        if not texts:
            return np.empty((0, self._dimension), dtype=np.float32)
        return await self._ask(_Job(texts, self._dimension, run))

    async def _ask(self, job: _Job) -> NDArray[np.float32]:
        is_query = len(job.texts) == 1
        with self._lock:
            (self._queries if is_query else self._lists).append(job)
            runner = self._claim_runner(is_query)
        if runner:
            try:
                self._start(runner)
            except BaseException:
                job.future.cancel()
                raise
        return await job.future

    def _claim_runner(self, is_query: bool) -> Callable[[], None] | None:
        """Return the runner to start for a request, if another is allowed; the lock is held."""
        if self._active < self._runners:
            self._active += 1
            return self._run_all
        if is_query and self._on_lists == self._runners and not self._has_extra:
            self._has_extra = True
            return self._run_queries
        return None

    def _start(self, runner: Callable[[], None]) -> None:
        try:
            start_blocking(runner)
        except BaseException:
            with self._lock:
                if runner == self._run_queries:
                    self._has_extra = False
                else:
                    self._active -= 1
            raise

    def _run_all(self) -> None:
        """Run all waiting requests, in a thread."""
        while taken := self._take():
            is_list = len(taken[0].texts) > 1
            self._serve(taken)
            del taken  # what it holds goes now, and not with the next request
            if is_list:
                with self._lock:
                    self._on_lists -= 1

    def _run_queries(self) -> None:
        """Run all waiting queries, in a thread, while the other runners work on lists."""
        while taken := self._take_queries():
            self._serve(taken)
            del taken

    def _serve(self, taken: list[_Job]) -> None:
        try:
            outcomes = self._turn(taken)
        except BaseException as error:  # a caller must hear of it, whatever it is: nobody else would
            outcomes = [(job, error) for job in taken]
        _settle(outcomes)

    def _take(self) -> list[_Job]:
        """Take the next requests from their queue; if none wait, return nothing and end this runner."""
        with self._lock:
            while self._queries or self._lists:
                is_late = self._query_turns >= QUERY_TURNS and bool(self._lists)
                is_query = bool(self._queries) and not is_late
                self._query_turns = self._query_turns + 1 if is_query and self._lists else 0
                if taken := self._take_from(self._queries if is_query else self._lists):
                    self._on_lists += not is_query
                    return taken
            self._active -= 1
            return []

    def _take_queries(self) -> list[_Job]:
        """Take the next queries; if none wait, return nothing and end the extra runner."""
        with self._lock:
            taken = self._take_from(self._queries)
            self._has_extra = bool(taken)
            return taken

    def _take_from(self, lane: deque[_Job]) -> list[_Job]:
        taken: list[_Job] = []
        texts = 0
        while lane and len(taken) < self._most_jobs:
            job = lane[0]
            if not job.is_over:
                texts += 0 if job.runs else min(len(job.texts), TOKENIZE_AT_ONCE)
                if taken and texts > TOKENIZE_AT_ONCE:
                    break
                taken.append(job)
            lane.popleft()
        return taken

    def _turn(self, taken: list[_Job]) -> list[Outcome]:
        """Tokenize the taken requests, run the oldest with those that fit, and put the others back."""
        outcomes: list[Outcome] = []
        ready: list[_Job] = []
        unready: list[_Job] = []
        for job in taken:
            try:
                if not job.runs:
                    job.tokenize(self._tokenize, self._cut)
            except BaseException as error:
                outcomes.append((job, error))
                continue
            (ready if job.runs else unready).append(job)
        together = set(fitting([job.next_tokens() for job in ready], self._run_cost))
        members = [ready[place] for place in sorted(together)]
        self._put_last(unready)
        self._put_back([job for place, job in enumerate(ready) if place not in together])
        outcomes += self._run_together(members)
        failed = {id(job) for job, error in outcomes if error is not None}
        self._put_last([job for job in members if job.runs and id(job) not in failed])
        return outcomes

    def _put_back(self, jobs: list[_Job]) -> None:
        """Return requests to their places, and let another runner take them."""
        if not jobs:
            return
        with self._lock:
            for job in reversed(jobs):
                (self._queries if len(job.texts) == 1 else self._lists).appendleft(job)
            runner = self._claim_runner(len(jobs[0].texts) == 1)
        if runner:
            with suppress(RuntimeError):  # the interpreter exits: this runner sees to them
                self._start(runner)

    def _put_last(self, jobs: list[_Job]) -> None:
        """Queue unfinished lists behind the others, so that lists take turns; the calling runner goes on."""
        if jobs:
            with self._lock:
                self._lists.extend(jobs)

    def _run_together(self, members: list[_Job]) -> list[Outcome]:
        """Run the next part of each request together; if that fails, each alone, so that errors stay apart."""
        if not members:
            return []
        parts = [job.next_tokens() for job in members]
        try:
            vectors = members[0].run([ids for part in parts for ids in part])
        except BaseException as error:
            if len(members) == 1:
                return [(members[0], error)]
            return [outcome for job in members for outcome in self._run_together([job])]
        start = 0
        for job, part in zip(members, parts, strict=True):
            job.keep(vectors[start : start + len(part)])
            start += len(part)
        return [(job, None) for job in members if not job.runs]


def fitting(parts: Sequence[Tokens], run_cost: float | None, most_tokens: int = RUN_TOKENS) -> list[int]:
    """Return the places of the parts for one run: the first, and those closest to it in length that fit.

    A part joins if that adds at most `run_cost` tokens of padding, and the run stays within `most_tokens`. Without
    padding (None) the parts that fit are taken in their order.
    """
    if not parts:
        return []
    if run_cost is None:
        chosen, tokens = [0], sum(map(len, parts[0]))
        for place, part in enumerate(parts[1:], 1):
            own_tokens = sum(map(len, part))
            if tokens + own_tokens <= most_tokens:
                chosen.append(place)
                tokens += own_tokens
        return chosen
    widths = [max(map(len, part)) for part in parts]
    width, count = widths[0], len(parts[0])
    chosen = [0]
    for place in sorted(range(1, len(parts)), key=lambda place: abs(widths[place] - widths[0])):
        own = len(parts[place])
        wider = max(width, widths[place])
        padding = count * (wider - width) + own * (wider - widths[place])
        if padding <= run_cost and (count + own) * wider <= most_tokens:
            chosen.append(place)
            width, count = wider, count + own
    return chosen


def _settle(outcomes: list[Outcome]) -> None:
    """Settle every caller, with one call into each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Outcome]] = {}
    for job, error in outcomes:
        if not job.is_settled:
            job.is_settled = True
            by_loop.setdefault(job.loop, []).append((job, error))
    for loop, own in by_loop.items():
        try:
            loop.call_soon_threadsafe(_tell, own)
        except RuntimeError:
            continue  # the loop was closed: nobody waits there


def _tell(outcomes: list[Outcome]) -> None:
    for job, error in outcomes:
        if job.future.done():
            continue  # cancelled
        if error is None:
            job.future.set_result(job.vectors)
        elif isinstance(error, Exception) and not isinstance(error, StopIteration):
            job.future.set_exception(error)
        else:  # a panic of a driver, which would pass all handlers
            job.future.set_exception(EmbeddingError(f"the model failed: {error!r}"))


_batchers: WeakSet[MicroBatcher] = WeakSet()


def _after_fork() -> None:
    for batcher in list(_batchers):
        batcher.after_fork()


_register: Any = getattr(os, "register_at_fork", None)
if _register:
    _register(after_in_child=_after_fork)
