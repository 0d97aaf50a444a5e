"""The control plane: settings, heads, metrics, the admin side."""
