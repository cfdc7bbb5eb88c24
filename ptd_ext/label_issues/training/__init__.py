"""Networks trained on rows in memory, which then judge them."""
