"""What is checked before anything is kept. In: requests, uploads, texts. Out: visitors, images, refusals."""
