"""The shape of everything that is stored or released. Imports nothing from `tasks` or `flows`."""

import os

# Arrow's own memory pool keeps what it once took; the system's gives large buffers back, in the same time. Stages over
# 100,000 conversations hold 50 to 75 MB less so. Arrow looks once, as it is loaded, so it is said before that.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
