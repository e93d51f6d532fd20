#!/usr/bin/env python3
"""Receives signed webhooks: verify, do the work once, answer.

    pip install standardwebhooks
    WEBHOOK_SECRET=whsec_... ./receiver.py 8080
"""
import os
import sqlite3
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["WEBHOOK_SECRET"])
database = os.environ.get("RECEIVER_DATABASE", "received.sqlite")


def connect():
    connection = sqlite3.connect(database, timeout=10)
    connection.execute("create table if not exists received (id text primary key, type text, body text)")
    return connection


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            # The bytes as they came: JSON that was read and written again has another signature.
            webhook.verify(body, {name.lower(): value for name, value in self.headers.items()}, json_parse=False)
        except WebhookVerificationError as error:
            return self.answer(401, str(error))

        # The same event may come twice. Its id is stored in the transaction of its effect.
        with connect() as connection:
            new = connection.execute(
                "insert into received values (?, ?, ?) on conflict do nothing",
                (self.headers["webhook-id"], self.headers["outbox-event-type"], body),
            ).rowcount
        print("received" if new else "again", self.headers["webhook-id"], flush=True)
        self.answer(204)

    def answer(self, status, text=""):
        self.send_response(status)
        if status != 204:
            self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        if status != 204:
            self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    connect().close()
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
    print("listening on", server.server_address[1], flush=True)
    server.serve_forever()
