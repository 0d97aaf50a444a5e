"""What the hosts of one Redis share: settings, purges, and what each tells the others of itself."""
