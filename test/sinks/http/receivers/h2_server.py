"""An HTTP/2 server: prints a line for each request, and now and then ends a stream or a connection."""
import socket
import ssl
import sys
import threading

import h2.config
import h2.connection
import h2.events

certificate, key, trouble = sys.argv[1], sys.argv[2], sys.argv[3] == "trouble"
lock = threading.Lock()
requests = 0


def say(*words):
    with lock:
        print(*words, flush=True)


def serve(client, number):
    global requests
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    connection.initiate_connection()
    client.sendall(connection.data_to_send())
    streams = {}
    while True:
        data = client.recv(65536)
        if not data:
            return
        for event in connection.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                streams[event.stream_id] = dict(event.headers)
            elif isinstance(event, h2.events.DataReceived):
                connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                headers = {
                    name.decode() if isinstance(name, bytes) else name: value.decode() if isinstance(value, bytes) else value
                    for name, value in streams.pop(event.stream_id).items()
                }
                with lock:
                    requests += 1
                    count = requests
                if trouble and count % 37 == 0:
                    connection.reset_stream(event.stream_id)
                    continue
                if trouble and count % 101 == 0:
                    connection.close_connection()
                    client.sendall(connection.data_to_send())
                    return
                say("received", headers["webhook-id"], "connection", number)
                connection.send_headers(event.stream_id, [(":status", "204")], end_stream=True)
        client.sendall(connection.data_to_send())


def run(client, number):
    try:
        with context.wrap_socket(client, server_side=True) as wrapped:
            if wrapped.selected_alpn_protocol() == "h2":
                serve(wrapped, number)
    except (OSError, h2.exceptions.ProtocolError) as error:
        say("connection", number, "ended:", error)


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
context.set_alpn_protocols(["h2"])
listener = socket.create_server(("127.0.0.1", 0))
say("listening on", listener.getsockname()[1])
number = 0
while True:
    client, _ = listener.accept()
    number += 1
    threading.Thread(target=run, args=(client, number), daemon=True).start()
