#include "routes.h"

#include <cstring>
#include <new>

namespace outbox
{

namespace
{

constexpr const char *kTypeHint = "Name a type, or write * for any.";
constexpr const char *kFailureHint = "block: later events of the key wait; skip: they flow.";
constexpr const char *kHeadersHint = "The formats are debezium, cloudevents and both.";

int
print_width(std::string_view text) noexcept
{
    return static_cast<int>(text.size());
}

Verdict
check_type(const char *column, std::string_view type) noexcept
{
    if (type.empty())
        return refuse(kTypeHint, "%s is empty", column);
    if (type.size() > kMaxRouteTypeBytes)
        return refuse("", "%s is longer than %zu bytes", column, kMaxRouteTypeBytes);
    return {};
}

// A topic that no event of this row can have is refused now, not with each event. Types that are
// not known here are judged then.
Verdict
check_topic(const RouteText &text, const TopicTemplate &topic) noexcept
{
    const auto example = [](std::string_view type) { return type == kAnyType ? "x" : type; };
    char buffer[kMaxTopicLength];
    const TopicName name = topic.expand(example(text.aggregate_type), example(text.event_type),
                                        buffer, sizeof(buffer));
    if (name.error != nullptr)
        return refuse(kTopicNameRule, "topic, with its types put in, %s", name.error);
    return {};
}

Verdict
read_topic(const RouteText &text, Route *route) noexcept
{
    const Verdict verdict = route->topic.compile(*text.topic);
    if (!verdict.ok)
        return refuse(verdict.hint, "topic %s", verdict.reason);
    route->has_topic = true;
    return check_topic(text, route->topic);
}

Verdict
read_on_failure(std::string_view text, Route *route) noexcept
{
    for (const bool blocks : {true, false})
        if (text == on_failure_name(blocks))
            route->blocks = blocks;
    if (route->blocks)
        return {};
    const std::string_view shown = clip(text, 64);
    return refuse(kFailureHint, "on_failure is \"%.*s\", not block or skip", print_width(shown),
                  shown.data());
}

Verdict
read_headers(std::string_view text, Route *route) noexcept
{
    for (const HeadersFormat format : {kDebezium, kCloudEvents, kBothHeaders})
        if (text == headers_format_name(format))
            route->headers = format;
    if (route->headers)
        return {};
    const std::string_view shown = clip(text, 64);
    return refuse(kHeadersHint, "headers_format is \"%.*s\"", print_width(shown), shown.data());
}

} // namespace

const char *
on_failure_name(bool blocks) noexcept
{
    return blocks ? "block" : "skip";
}

const char *
headers_format_name(HeadersFormat format) noexcept
{
    return format == kDebezium ? "debezium" : format == kCloudEvents ? "cloudevents" : "both";
}

Verdict
read_route(const RouteText &text, Route *route) noexcept
{
    *route = {};
    Verdict verdict = check_type("aggregate_type", text.aggregate_type);
    if (verdict.ok)
        verdict = check_type("event_type", text.event_type);
    if (verdict.ok && text.topic)
        verdict = read_topic(text, route);
    if (verdict.ok && text.on_failure)
        verdict = read_on_failure(*text.on_failure, route);
    if (verdict.ok && text.headers_format)
        verdict = read_headers(*text.headers_format, route);
    return verdict;
}

Verdict
RouteTable::add(const RouteText &text) noexcept
{
    try
    {
        if (entries_.size() == kMaxRoutes)
            return refuse("Use * and the placeholders of topics for many types at once.",
                          "place is beyond the %zu that a table may have", kMaxRoutes);
        Route route;
        Verdict verdict = read_route(text, &route);
        if (!verdict.ok)
            return verdict;
        entries_.push_back({std::string(text.aggregate_type), std::string(text.event_type), route});
        const Entry &entry = entries_.back();
        if (by_types_.emplace(Types{entry.aggregate_type, entry.event_type}, &entry).second)
            return {};
        entries_.pop_back();
        return refuse("", "types have another row");
    }
    catch (const std::bad_alloc &)
    {
        return refuse("", "texts do not fit in memory");
    }
}

const RouteTable::Entry *
RouteTable::find(std::string_view aggregate_type, std::string_view event_type) const noexcept
{
    const Types specific_first[] = {{aggregate_type, event_type},
                                    {aggregate_type, kAnyType},
                                    {kAnyType, event_type},
                                    {kAnyType, kAnyType}};
    for (const Types &types : specific_first)
    {
        const auto found = by_types_.find(types);
        if (found != by_types_.end())
            return found->second;
    }
    return nullptr;
}

} // namespace outbox
