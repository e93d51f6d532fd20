#include "http_destination.h"

#include "webhook.h"

namespace outbox::http
{

std::unique_ptr<Sink>
HttpDestination::open(Use use, int, Failure &why)
{
    auto sink = Webhook::make(*station_, static_cast<std::size_t>(use));
    if (sink == nullptr)
        set_failure(why, FailureClass::config, "CURL", "libcurl could not be set up");
    return sink;
}

} // namespace outbox::http
