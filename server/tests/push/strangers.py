"""A receiver that verifies what it gets with the package `standardwebhooks`, and says so by a line."""

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

webhook = Webhook(sys.argv[1])


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            webhook.verify(body, {name.lower(): value for name, value in self.headers.items()})
            status, word = 204, "accepted"
        except WebhookVerificationError as error:
            status, word = 401, f"refused: {error}"
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()
        print(word, flush=True)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Receiver)
print(server.server_port, flush=True)
server.serve_forever()
