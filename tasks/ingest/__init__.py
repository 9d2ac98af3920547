"""Raw log lines and image files -> conversations, battles, images and rejects."""
