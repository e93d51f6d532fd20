// Keeps secrets out of what is logged and shown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace outbox::http
{

class Secrets
{
public:
    // Remembers a value. One of fewer than four bytes cannot be told from ordinary text, and is
    // not. May throw std::bad_alloc.
    void add(std::string_view value);
    // Replaces each secret in the text by "***". May throw std::bad_alloc.
    void mask(std::string &text) const;

private:
    std::vector<std::string> values_; // the longest first, as it may contain others
};

} // namespace outbox::http
