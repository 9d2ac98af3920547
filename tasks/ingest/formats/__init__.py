"""The shapes of input that ingest reads: an arena server's own logs, and published datasets."""

from tasks.ingest.formats import (
    human_preference,
    lmsys_chat,
    openai_messages,
    vision_arena_battle,
    vision_arena_chat,
    wildvision,
)
from tasks.ingest.formats.door import Door

ARENA_LOGS = "arena-logs"
DOORS: dict[str, Door] = {
    door.name: door
    for door in (
        vision_arena_chat.DOOR,
        vision_arena_battle.DOOR,
        wildvision.CHAT,
        wildvision.BATTLE,
        human_preference.DOOR,
        lmsys_chat.DOOR,
        openai_messages.DOOR,
    )
}
