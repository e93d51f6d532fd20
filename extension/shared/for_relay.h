// Marks what the preloaded library offers to the relay's. Everything else in it is hidden.
#pragma once

#define OUTBOX_FOR_RELAY __attribute__((visibility("default")))
