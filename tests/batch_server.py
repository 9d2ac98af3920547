"""A server on 127.0.0.1 that speaks the batch interfaces of OpenAI, Gemini and Anthropic, for their real SDKs."""

import json
import re
import threading

from schemas.tags import Categories
from tests.http_server import Serving

ENDED = {
    "completed": ("completed", "BATCH_STATE_SUCCEEDED"),
    "expired": ("expired", "BATCH_STATE_EXPIRED"),
    "failed": ("failed", "BATCH_STATE_FAILED"),
    "cancelled": ("cancelled", "BATCH_STATE_CANCELLED"),
}

NO_CATEGORIES = json.dumps(dict.fromkeys(Categories.model_fields, False))
"""What a tagger answers about a prompt of no category."""


class BatchServer(Serving):
    """`lines` makes the result file from parsed request lines; the other attributes are switches and counters."""

    methods = ("POST", "GET", "DELETE")

    def __init__(self, lines):
        self.lines = lines
        self.hold, self.ends, self.inline = False, "completed", False
        self.refuse_create = self.lose_creates = self.cut_downloads = self.fail_polls = 0
        self.files, self.batches, self.deleted, self.polls, self.single_calls = {}, {}, [], 0, 0
        self.may_answer = threading.Event()
        self.may_answer.set()
        super().__init__()

    def respond(self, handler):
        if handler.command == "POST":
            self.post(handler, handler.rfile.read(int(handler.headers["content-length"])))
        elif handler.command == "GET":
            self.get(handler)
        else:
            self.deleted.append(handler.path.rsplit("/", 1)[-1].partition("?")[0])
            self.send(handler, {"id": "x", "object": "file", "deleted": True})

    @property
    def requests(self):
        """Every request line of every batch."""
        return [
            row for batch in self.batches.values() for row in map(json.loads, self.files[batch["file"]].splitlines())
        ]

    def post(self, handler, body):
        path = handler.path.partition("?")[0]
        with self._lock:
            if path == "/openai/v1/files":
                content = re.search(rb'name="file".*?\r\n\r\n(.*)\r\n--', body, re.S).group(1)
                self.send(handler, self._openai_file(self._stored(content)))
            elif path.startswith("/upload/") and handler.headers["x-goog-upload-command"] == "start":
                self.send(handler, {}, headers={"x-goog-upload-url": f"{self.url}/upload/here"})
            elif path == "/openai/v1/chat/completions":  # as `curate doctor --ask`, and each night before it measures
                self.single_calls += 1
                self.send(handler, json.loads(result({"custom_id": ""}, NO_CATEGORIES))["response"]["body"])
            elif path == "/upload/here":
                file = {"file": {"name": f"files/{self._stored(body)}"}}
                self.send(handler, file, headers={"x-goog-upload-status": "final"})
            else:
                self._create(handler, json.loads(body))

    def _create(self, handler, body):
        if self.refuse_create:
            self.refuse_create -= 1
            return self.send(handler, {"error": {"message": "no", "code": "nope"}}, 400)
        if "requests" in body:
            rows = b"".join(json.dumps(row).encode() + b"\n" for row in body["requests"])
            batch = {"file": self._stored(rows), "token": None}
        elif "input_file_id" in body:
            batch = {"file": body["input_file_id"], "token": body["metadata"]["curate"]}
        else:
            batch = {"file": body["batch"]["inputConfig"]["fileName"].removeprefix("files/")}
            batch["token"] = body["batch"]["displayName"]
        number = f"b{len(self.batches)}"
        self.batches[number] = batch
        self.may_answer.wait(60)
        if self.lose_creates:
            self.lose_creates -= 1
            handler.close_connection = True
            return None
        return self.send(handler, self._shown(handler, number))

    def get(self, handler):
        path = handler.path.partition("?")[0]
        name = path.rsplit("/", 1)[-1]
        with self._lock:
            if path.endswith("/results"):
                self.send(handler, self.files[self.batches[path.split("/")[-2]]["output"]])
            elif path.endswith("/content") or name.endswith(":download"):
                file = path.split("/")[-2] if path.endswith("/content") else name.removesuffix(":download")
                self.cut_downloads -= 1
                self.send(handler, self.files[file], cut=self.cut_downloads >= 0)
            elif name == "batches":
                rows = [self._shown(handler, number) for number in reversed(self.batches)]
                self.send(handler, {"object": "list", "data": rows, "operations": rows, "has_more": False})
            else:
                self.polls += 1
                self.fail_polls -= 1
                down = self.fail_polls >= 0
                self.send(
                    handler,
                    {"error": {"message": "busy"}} if down else self._shown(handler, name),
                    503 if down else 200,
                )

    def _shown(self, handler, number):
        batch, ended = self.batches[number], not self.hold
        if ended and "output" not in batch:
            rows = [json.loads(line) for line in self.files[batch["file"]].splitlines()]
            batch["output"] = None if self.ends == "failed" else self._stored(self.lines(rows))
        openai, gemini = ENDED[self.ends] if ended else ("in_progress", "BATCH_STATE_RUNNING")
        if handler.path.startswith("/v1/messages/"):
            shown = {"id": number, "type": "message_batch", "processing_status": "ended" if ended else "in_progress"}
            return shown | {"created_at": "2999-01-01T00:00:00Z", "expires_at": "2999-01-02T00:00:00Z"}
        if handler.path.startswith("/openai/"):
            shown = {"id": number, "object": "batch", "endpoint": "/v1/chat/completions", "completion_window": "24h"}
            shown |= {"created_at": 4_000_000_000, "input_file_id": batch["file"], "status": openai}
            return shown | {
                "metadata": {"curate": batch["token"]},
                "output_file_id": (ended and batch["output"]) or None,
            }
        output = {}
        if ended and batch["output"] and self.inline:
            rows = [json.loads(line) for line in self.files[batch["output"]].splitlines()]
            answers = [{"metadata": {"key": row["key"]}, "response": row["response"]} for row in rows]
            output = {"output": {"inlinedResponses": {"inlinedResponses": answers}}}
        elif ended and batch["output"]:
            output = {"output": {"responsesFile": f"files/{batch['output']}"}}
        shown = {"displayName": batch["token"], "state": gemini, "createTime": "2999-01-01T00:00:00Z"}
        return {"name": f"batches/{number}", "metadata": shown | output}

    def _stored(self, content):
        name = f"f{len(self.files)}"
        self.files[name] = content
        return name

    def _openai_file(self, name):
        size = len(self.files[name])
        shown = {"id": name, "object": "file", "bytes": size, "created_at": 1, "filename": "q", "purpose": "batch"}
        return shown | {"status": "processed"}


def result(row, answer, used=(1000, 100)):
    """The result line for a request line that was answered."""
    if "params" in row:
        said = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
        said |= {"content": [{"type": "text", "text": answer}], "stop_reason": "end_turn"}
        said |= {"usage": {"input_tokens": used[0], "output_tokens": used[1]}}
        said = {"type": "succeeded", "message": said}
        return json.dumps({"custom_id": row["custom_id"], "result": said}).encode() + b"\n"
    if "key" in row:
        parts = {"role": "model", "parts": [{"text": answer}]}
        tokens = {"promptTokenCount": used[0], "candidatesTokenCount": used[1]}
        response = {"candidates": [{"finishReason": "STOP", "content": parts}], "usageMetadata": tokens}
        return json.dumps({"key": row["key"], "response": response}).encode() + b"\n"
    message = {"role": "assistant", "content": answer}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    body["choices"] = [{"index": 0, "finish_reason": "stop", "message": message}]
    body["usage"] = {"prompt_tokens": used[0], "completion_tokens": used[1], "total_tokens": sum(used)}
    response = {"status_code": 200, "request_id": "r", "body": body}
    return json.dumps({"id": "i", "custom_id": row["custom_id"], "response": response, "error": None}).encode() + b"\n"


def failed(row):
    """The result line for a request line that was not answered."""
    error = {"code": "batch_expired", "message": "quotes the prompt"}
    if "params" in row:
        said = {"type": "errored", "error": {"type": "error", "error": error}}
        return json.dumps({"custom_id": row["custom_id"], "result": said}).encode() + b"\n"
    if "key" in row:
        return json.dumps({"key": row["key"], "error": error | {"code": 500}}).encode() + b"\n"
    return json.dumps({"id": "i", "custom_id": row["custom_id"], "response": None, "error": error}).encode() + b"\n"


def asked(row):
    """The text that a request line asks about."""
    if "key" in row:
        return row["request"]["contents"][0]["parts"][0]["text"]
    return row["body"]["messages"][1]["content"][0]["text"]


def name_of(row):
    """The id that we gave a request line."""
    return row.get("key") or row["custom_id"]
