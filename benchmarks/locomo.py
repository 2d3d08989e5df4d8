"""How much of the evidence is recalled on LoCoMo: ten long conversations of two people, no language model.

    python benchmarks/locomo.py --data locomo10.json [--conversations N] [--preset NAME] [--peers mem0 langgraph chroma]
                                [--mode turns|facts|turns+facts|rules] [--store DIR] [--qa MODEL --base-url URL]

Each question is asked of its own conversation, all of them lying in one memory, and the turns that its evidence names
are looked for among what is found. `r@10` is the share of them among the first ten results, `r@2k` the share that fits
into 2,000 tokens (words x 1.3; `r@2kc` in the JSON: characters / 4). Sessions are scored by the same ranking. `facts`
are the observations that the data set ships, written by a language model. Fails if a search shows a memory of another
conversation.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from recall_data import read_locomo  # these lie beside this file
from recall_metrics import Scored, auroc, mean_target, values
from recall_run import Findings, Loaded, asked, duplicates, filled, read_arguments, report

TARGETS = {
    # floor, strong: what the best ranking known without a language model reaches on conversations that it was not
    # fitted to, less about one 95 % interval, and about that figure itself (BM25F and cosine over windows of turns,
    # word vectors, speaker, date: .853, .868, .594 and .945)
    "turns": {
        "answerable r@10": (0.80, 0.84),
        "all r@10": (0.82, 0.86),
        "multi-hop r@10": (0.54, 0.60),
        "all r@2k": (0.92, 0.94),
    },
    # facts alone cannot reach more than .808 of the evidence; beside the turns they must not take anything away
    "facts": {"answerable r@10": (0.63, 0.66)},
    "turns+facts": {"answerable r@10": (0.80, 0.85)},
    "rules": {"answerable r@10": (0.80, 0.85)},
}


def findings(loaded: Loaded, scored: Sequence[Scored]) -> Findings:
    """The groups and figures that the field's tables have, and what stands against the targets."""
    answerable = [each for each in scored if not each.question.abstain]
    groups = {"answerable": answerable, "all": scored}
    of = {**groups, "multi-hop": [each for each in scored if each.question.category == "multi-hop"]}
    targets = []
    for name, (floor, strong) in TARGETS[loaded.mode].items():
        group, figure = name.rsplit(" ", 1)
        targets.append(mean_target(name, values(of[group], figure), floor, strong))
    adversarial = [each.answer.coverage for each in scored if each.question.abstain]
    figures = {
        "adversarial told apart (AUROC)": auroc([each.answer.coverage for each in answerable], adversarial),
        "without evidence to be found": sum(not each.question.gold for each in scored),
    }
    if loaded.mode in ("facts", "rules"):
        figures["duplicates, told twice"] = duplicates(scored[0].conversation, loaded.mode)
    sessions = {f"{name}, sessions": [each.as_sessions() for each in group] for name, group in groups.items()}
    return Findings(groups=groups, sessions=sessions, targets=targets, figures=figures)


def main() -> int:
    arguments = read_arguments(__doc__)
    conversations = read_locomo(arguments.data)[: arguments.conversations]
    with filled(arguments, conversations) as loaded:
        scored = asked(loaded, conversations, arguments.limit)
        return report(arguments, loaded, scored, findings(loaded, scored))


if __name__ == "__main__":
    sys.exit(main())
