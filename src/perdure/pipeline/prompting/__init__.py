"""The content of prompts: context blocks, placement, quotation, compaction."""
