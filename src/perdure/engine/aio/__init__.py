"""Order among concurrent work: deadlines, shields, queues, background tasks, degraded operation."""
