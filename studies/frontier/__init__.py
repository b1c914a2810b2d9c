"""Quality of scores against their cost, and docs/frontier.md."""
