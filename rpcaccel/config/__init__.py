"""What the operator says: the settings, where they come from, and how they change."""
