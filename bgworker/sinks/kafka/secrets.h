// Keeps secrets out of what is logged and shown.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace outbox::kafka
{

// Secret values, of one configuration or of all connections of a program.
class Secrets
{
public:
    // Remembers a value. Values shorter than four bytes are not remembered: they cannot be
    // distinguished from ordinary text. May throw std::bad_alloc.
    void add(std::string_view value);

    // Replaces every occurrence of a secret in the text by "***", and one that contains others as a
    // whole. The text never grows.
    void mask(char *text) const noexcept;
    void mask(std::string &text) const noexcept;

private:
    std::size_t mask(char *text, std::size_t size) const noexcept;

    std::vector<std::string> values_; // the longest first
};

} // namespace outbox::kafka
