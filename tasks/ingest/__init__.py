"""Raw log lines and picture files -> conversations, battles, images and rejects."""
