// From a record to what a request says.
#pragma once

#include "bgworker/engine/failure.h"
#include "bgworker/engine/record.h"

#include "options.h"

#include <string>
#include <string_view>
#include <vector>

namespace outbox::http
{

struct Message
{
    std::string id;
    std::string body;
    std::vector<std::string> headers; // "name: value"
};

// False: this event cannot be sent as a request, and `why` says so, with the class event. May throw
// std::bad_alloc.
bool make_message(const Record &record, Format format, Message &message, Failure &why);

// What is not printable ASCII, spaces, quotation marks and percent signs become %XX, as in the
// HTTP binding of CloudEvents: any text can be sent so, and read back.
std::string encode_header(std::string_view text);

// Whether a text is one JSON value, in UTF-8 or not. Takes linear time and no stack.
bool is_json(std::string_view text);

} // namespace outbox::http
