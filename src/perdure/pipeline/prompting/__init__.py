"""What goes into a prompt: context blocks, placement, quotation, compaction."""
