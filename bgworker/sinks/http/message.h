// From a record to what a request says.
#pragma once

#include "bgworker/engine/failure.h"
#include "bgworker/engine/record.h"

#include "options.h"

#include <string>
#include <string_view>

namespace outbox::http
{

struct Message
{
    std::string id;
    std::string body;
    std::string headers; // lines, "name: value", with a null byte behind each
};

// False: this event cannot be sent as a request, and `why` says so, with the class event. May throw
// std::bad_alloc.
bool make_message(const Record &record, Format format, Message &message, Failure &why);

// What is not printable ASCII, spaces, quotation marks and percent signs become %XX, as in the
// HTTP binding of CloudEvents: any text can be sent so, and read back.
void encode_header(std::string_view text, std::string &encoded);

} // namespace outbox::http
