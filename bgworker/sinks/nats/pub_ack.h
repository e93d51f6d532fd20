// What JetStream answers to what was published, or to a question about itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace outbox::nats
{

// Read from JSON that may be anything: whoever listens on a subject may answer. The texts are cut
// to fit.
struct Answer
{
    bool is_json = false; // one object, well formed and of moderate depth
    bool has_error = false;
    int http_code = 0; // "code" of the error, in the way of HTTP
    int error_code = 0;
    char description[192] = "";
    char stream[256] = "";
    bool has_sequence = false;
    std::uint64_t sequence = 0;
    bool duplicate = false;

    // The message is in a stream.
    bool is_stored() const noexcept
    {
        return is_json && !has_error && stream[0] != '\0' && has_sequence && sequence > 0;
    }
};

constexpr std::size_t kMaxAnswerSize = std::size_t{64} * 1024;

Answer read_answer(std::string_view json) noexcept;

} // namespace outbox::nats
