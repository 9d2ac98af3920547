"""Guards of an arena's pages that work without a conversation: what a request says of itself, and captchas."""
