"""Steps of maintenance: consolidation, insights, retention."""
