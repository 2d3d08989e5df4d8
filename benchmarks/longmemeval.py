"""How much of the evidence is recalled on LongMemEval: each question has a history of its own, some 50 sessions long.

    python benchmarks/longmemeval.py --data longmemeval_s.json [--conversations N] [--preset NAME] [--mode turns|rules]
                                     [--peers mem0 langgraph chroma] [--store DIR] [--qa MODEL --base-url URL]

The first table is by turns (those marked `has_answer`), the second by the sessions in which they were said, at their
first turn found. All turns are searched, the assistant's too. The questions whose id ends in `_abs` cannot be answered:
they count for *told apart* alone, the AUROC of `SearchResult.coverage`. The field's figure is `any@5` of the sessions,
which the data set's own script does not print: it prints `all@5` and `all@10`. Fails if a search shows a memory of
another history.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from recall_data import read_longmemeval  # these lie beside this file
from recall_metrics import Scored, apart_target, by_category, mean_target, values
from recall_run import Findings, Loaded, asked, duplicates, filled, read_arguments, report

MODES = ("turns", "rules")


def findings(loaded: Loaded, scored: Sequence[Scored]) -> Findings:
    """Sessions beside turns, and what others have published for `longmemeval_s` without a language model."""
    answerable = [each for each in scored if not each.question.abstain]
    sessions = [each.as_sessions() for each in answerable]
    targets = [
        # BM25 with MiniLM .952 (agentmemory), verbatim sessions with MiniLM .966 (MemPalace); their ten: .986
        mean_target("sessions any@5", values(sessions, "any@5"), 0.952, 0.966),
        mean_target("sessions any@10", values(sessions, "any@10"), 0.980, 0.986),
        mean_target("sessions nDCG@10", values(sessions, "nDCG@10"), 0.730, 0.879),
        # nobody has published this one here; the same as for BEAM
        apart_target(answerable, [each for each in scored if each.question.abstain], 0.65, 0.70),
    ]
    figures: dict[str, float] = {}
    if loaded.mode == "rules":
        figures["duplicates, told twice"] = duplicates(scored[0].conversation, loaded.mode)
    return Findings(
        groups={"all": scored},
        sessions={**by_category(sessions), "all": sessions},
        targets=targets,
        figures=figures,
    )


def main() -> int:
    arguments = read_arguments(__doc__, MODES)
    conversations = read_longmemeval(arguments.data)[: arguments.conversations]
    with filled(arguments, conversations) as loaded:
        scored = asked(loaded, conversations, arguments.limit)
        return report(arguments, loaded, scored, findings(loaded, scored))


if __name__ == "__main__":
    sys.exit(main())
