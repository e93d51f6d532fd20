// Keeps secrets out of what is logged and shown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace outbox::kafka
{

// The secret values of one configuration.
class Secrets
{
public:
    // Remembers a value. Values shorter than four bytes are not remembered: they cannot be
    // distinguished from ordinary text. May throw std::bad_alloc.
    void add(std::string_view value);

    // Replaces every occurrence of a secret in the text by "***". The text never grows.
    void mask(char *text) const noexcept;

private:
    std::vector<std::string> values_;
};

} // namespace outbox::kafka
