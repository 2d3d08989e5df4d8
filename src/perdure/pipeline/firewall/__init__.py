"""The firewall: which text is kept out of prompts, because a tool said it or because it gives a model orders (V79, B5).

Vocabulary and wordings are data: `pipeline/lexicon/firewall_*`. All of it takes time in proportion to the text.
"""

from perdure.pipeline.firewall.forgery import is_forgery
from perdure.pipeline.firewall.provenance import Hearing, Provenance, origin_of
from perdure.pipeline.firewall.suspicion import INSTRUCTION, SYSTEM, TOOL, suspect

__all__ = ["INSTRUCTION", "SYSTEM", "TOOL", "Hearing", "Provenance", "is_forgery", "origin_of", "suspect"]
