// How the demo looks: headings, SQL, results and Kafka records on standard output.
#pragma once

#include <string>

#include "support/consumer.h"

namespace outbox::demo
{

class Screen
{
public:
    // Colours are used on a terminal only, and not when $NO_COLOR is set.
    Screen();

    void heading(const std::string &text) const;
    void text(const std::string &text) const;
    void blank() const;

    // A line "name  value" of a list.
    void item(const std::string &name, const std::string &value) const;

    // SQL as it is sent; `result` follows behind the last line as a comment.
    void sql(const std::string &statement, const std::string &result = "") const;

    // A command to be typed by the reader.
    void command(const std::string &line) const;

    // A promise that was looked at and held.
    void proof(const std::string &text) const;

    // A record as the consumer got it; `when` says how long that took.
    void record(const test::Record &record, const std::string &when) const;
    void short_record(const test::Record &record, const std::string &when) const;

private:
    bool colours_;
};

// "1.9 ms"
std::string in_milliseconds(double milliseconds);

} // namespace outbox::demo
