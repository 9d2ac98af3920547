"""Google's services: Cloud Vision and Gemini. In and out: as every provider of `tasks/providers/production`."""
