import sys

import pika


def run(uri, queue, handle, count):
    """Handles so many events once each; `handle` gets id, type, key and body."""
    done = set()  # keep it where the work is done, in the same transaction
    connection = pika.BlockingConnection(pika.URLParameters(uri))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=100)
    for method, properties, body in channel.consume(queue, auto_ack=False, inactivity_timeout=30):
        if method is None:
            break  # nothing for a while
        if properties.message_id not in done:
            handle(properties.message_id, properties.type, properties.headers["key"], body)
            done.add(properties.message_id)
        channel.basic_ack(method.delivery_tag)
        if len(done) == count:
            break
    connection.close()


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], lambda *event: print(*event, flush=True), int(sys.argv[3]))
