"""Anthropic: free-text chats by single calls or by Message Batches."""
