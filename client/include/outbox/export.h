// What the library exports, and the namespace that its symbols live in.
#pragma once

#if defined(__GNUC__)
#define OUTBOX_API __attribute__((visibility("default")))
#define OUTBOX_LOCAL __attribute__((visibility("hidden")))
#else
#define OUTBOX_API
#define OUTBOX_LOCAL
#endif

namespace outbox
{

// Everything of the client library is in here, so that its symbols are its own: `outbox::Event` is
// `outbox::v0::Event` to the linker. The number is that of the shared library.
inline namespace v0
{
}

} // namespace outbox
