"""`curate review`: what people are asked, and what they said."""
