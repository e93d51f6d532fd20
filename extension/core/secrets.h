// Keeps secrets out of what is logged and shown.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace outbox
{

// Replaces every occurrence of a secret by "***". One of less than four bytes cannot be
// distinguished from ordinary text, and stays.
void mask_secret(char *text, std::string_view secret) noexcept;

// Secret values, of one configuration or of all connections of a program.
class Secrets
{
public:
    // Remembers a value, also as it is written within JSON. Values shorter than four bytes are not
    // remembered: they cannot be distinguished from ordinary text. May throw std::bad_alloc.
    void add(std::string_view value);

    bool operator==(const Secrets &other) const { return values_ == other.values_; }

    // Replaces every occurrence of a secret in the text by "***", and one that contains others as a
    // whole. The text never grows.
    void mask(char *text) const noexcept;
    void mask(std::string &text) const noexcept;
    // Of a text that was cut somewhere also the beginning of a secret at its end. May throw
    // std::bad_alloc.
    void mask_cut(std::string &text) const;
    void mask_cut(char *text) const noexcept;

private:
    void remember(std::string_view value);
    std::size_t mask(char *text, std::size_t size) const noexcept;
    std::size_t begun_at_end(std::string_view text) const noexcept;

    std::vector<std::string> values_; // the longest first
};

} // namespace outbox
