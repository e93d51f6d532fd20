// Networks that nothing may be sent to.
#pragma once

#include "verdict.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

struct sockaddr;

namespace outbox
{

// A list of networks, "169.254.0.0/16, fe80::/10, fd00:ec2::254"; an address without a length
// stands for itself.
class Networks
{
public:
    // Replaces the list; when the text is none, the list stays and the verdict says why. May throw
    // std::bad_alloc.
    Verdict parse(std::string_view text);

    // Whether the address is in one of them. An IPv4 address that is part of an IPv6 one (mapped,
    // compatible, translated, behind a prefix of NAT64, 6to4, Teredo, ISATAP) is looked for as
    // both, and an unspecified one as the loopback address that it leads to. Of another family than
    // IPv4 and IPv6 every address is.
    bool contain(const sockaddr &address) const noexcept;

private:
    // IPv4 is kept as IPv4-mapped IPv6.
    struct Network
    {
        std::array<std::uint8_t, 16> address;
        int length;
    };
    bool contain(const std::array<std::uint8_t, 16> &address) const noexcept;

    std::vector<Network> all_;
};

// The address as text, without its port.
std::string address_text(const sockaddr &address);

} // namespace outbox
