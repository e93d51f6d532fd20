"""Reads requests with the CloudEvents SDK, and prints each event as a line of JSON."""
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cloudevents.core.bindings.http import HTTPMessage, from_http_event


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, text = 204, b""
        try:
            event = from_http_event(HTTPMessage(headers, body))
            print(
                json.dumps(
                    {
                        "id": event.get_id(),
                        "type": event.get_type(),
                        "source": event.get_source(),
                        "subject": event.get_subject(),
                        "time": event.get_time().isoformat(),
                        "aggregatetype": event.get_extension("aggregatetype"),
                        "data": event.get_data(),
                    },
                    sort_keys=True,
                ),
                flush=True,
            )
        except Exception as error:  # whatever the SDK does not like is the answer
            status, text = 400, repr(error).encode()
        self.send_response(status)
        if text:
            self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
print("listening on", server.server_address[1], flush=True)
server.serve_forever()
