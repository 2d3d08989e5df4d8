"""What keeps a store small and true: consolidation, insights, retention."""
