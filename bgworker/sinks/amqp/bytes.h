// Between the library's strings and ours.
#pragma once

#include "library.h"

#include <string_view>

namespace outbox::amqp
{

inline std::string_view
view(const amqp_bytes_t &bytes) noexcept
{
    return bytes.len == 0 ? std::string_view()
                          : std::string_view(static_cast<const char *>(bytes.bytes), bytes.len);
}

// The library does not write to what it sends.
inline amqp_bytes_t
bytes_of(std::string_view text) noexcept
{
    return {text.size(), const_cast<char *>(text.data())};
}

} // namespace outbox::amqp
