#include "shown.h"

#include "library.h"

#include <algorithm>

namespace outbox::amqp
{

Shown::Shown(std::string_view said) noexcept
{
    const std::size_t size = std::min(said.size(), sizeof text - 1);
    for (std::size_t i = 0; i < size; i++)
        text[i] = said[i] >= ' ' && said[i] <= '~' ? said[i] : '?';
    text[size] = '\0';
}

const char *
name_of_reply(int code) noexcept
{
    switch (code)
    {
    case AMQP_CONTENT_TOO_LARGE:
        return "CONTENT_TOO_LARGE";
    case AMQP_NO_ROUTE:
        return "NO_ROUTE";
    case AMQP_NO_CONSUMERS:
        return "NO_CONSUMERS";
    case AMQP_CONNECTION_FORCED:
        return "CONNECTION_FORCED";
    case AMQP_INVALID_PATH:
        return "INVALID_PATH";
    case AMQP_ACCESS_REFUSED:
        return "ACCESS_REFUSED";
    case AMQP_NOT_FOUND:
        return "NOT_FOUND";
    case AMQP_RESOURCE_LOCKED:
        return "RESOURCE_LOCKED";
    case AMQP_PRECONDITION_FAILED:
        return "PRECONDITION_FAILED";
    case AMQP_FRAME_ERROR:
        return "FRAME_ERROR";
    case AMQP_SYNTAX_ERROR:
        return "SYNTAX_ERROR";
    case AMQP_COMMAND_INVALID:
        return "COMMAND_INVALID";
    case AMQP_CHANNEL_ERROR:
        return "CHANNEL_ERROR";
    case AMQP_UNEXPECTED_FRAME:
        return "UNEXPECTED_FRAME";
    case AMQP_RESOURCE_ERROR:
        return "RESOURCE_ERROR";
    case AMQP_NOT_ALLOWED:
        return "NOT_ALLOWED";
    case AMQP_NOT_IMPLEMENTED:
        return "NOT_IMPLEMENTED";
    case AMQP_INTERNAL_ERROR:
        return "INTERNAL_ERROR";
    default:
        return "REPLY";
    }
}

Failure
failure_of_reply(int code, std::string_view said) noexcept
{
    Failure failure;
    const Shown shown(said);
    set_failure(failure, FailureClass::retriable, name_of_reply(code), "RabbitMQ says: %s (%d)",
                shown.text, code);
    failure.code = code;
    return failure;
}

Failure
failure_of_library(int status, const char *doing) noexcept
{
    Failure failure;
    set_failure(failure, FailureClass::retriable,
                status == AMQP_STATUS_HEARTBEAT_TIMEOUT ? "HEARTBEAT_TIMEOUT"
                : status == AMQP_STATUS_TIMEOUT         ? "TIMEOUT"
                                                        : "CONNECTION",
                "%s: %s", doing, amqp_error_string2(status));
    failure.code = status;
    return failure;
}

} // namespace outbox::amqp
