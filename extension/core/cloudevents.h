// CloudEvents 1.0 in Kafka's binary content mode: which headers a record gets, and what they may
// hold.
// https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/kafka-protocol-binding.md
#pragma once

#include "verdict.h"

#include <cstddef>
#include <string_view>

namespace outbox
{

// Which headers the relay sets beside the caller's.
enum HeadersFormat : int
{
    kDebezium,    // those of Debezium's outbox event router
    kCloudEvents, // CloudEvents attributes
    kBothHeaders
};

// Whether the format has CloudEvents attributes.
constexpr bool
has_cloudevents(HeadersFormat format) noexcept
{
    return format != kDebezium;
}

constexpr std::string_view kContentType = "content-type";

// Whether the relay sets this header itself where the format has CloudEvents attributes; the
// caller's header of that name, in letters of either case, is left out then. content-type is not
// among them: what the bytes of a payload are, only the caller knows.
bool is_cloudevents_header(std::string_view name) noexcept;

// What a caller's headers say that the payload is, for the one header content-type.
struct ContentType
{
    std::string_view value;
    int rank = 0;

    // Takes a header that tells of it: content-type, in letters of either case, or the attribute
    // datacontenttype, which the binary mode does not have. Returns false for other headers. A type
    // of CloudEvents itself would say that the record is in the structured mode, and is left out.
    bool take(std::string_view name, std::string_view type) noexcept;
};

// Whether the text, in UTF-8, can be an attribute: it has no control character, and none of the
// code points that are no characters.
bool is_attribute_text(std::string_view text) noexcept;

// Whether the text can be the attribute "source": a URI-reference of RFC 3986 that is not empty.
// The empty text is fine too, and stands for default_source().
Verdict check_source(std::string_view text) noexcept;

// Writes "/" and the name, percent-encoded as one segment of a path (RFC 3986, section 3.3), into
// `buffer`. Returns the length; 3 bytes for each of the name's, and one, are enough.
std::size_t default_source(std::string_view name, char *buffer) noexcept;

} // namespace outbox
