"""Encoded files in; decoded images out, with content ids, stored bytes without metadata, and perceptual hashes."""
