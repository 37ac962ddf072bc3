"""How a decision reaches GitHub: whose pull request and commit it is, comment, status, summary and annotations."""
