#include "networks.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

namespace outbox
{

namespace
{

using Bytes = std::array<std::uint8_t, 16>;

constexpr int kMappedBits = 96;
constexpr std::size_t kMostNetworks = 1000;
constexpr const char *kHint =
    "Write networks as address/length, separated by commas: 169.254.0.0/16, fe80::/10.";

Bytes
mapped(const std::uint8_t *ipv4)
{
    Bytes address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    std::copy_n(ipv4, 4, address.begin() + 12);
    return address;
}

bool
begins_with(const Bytes &address, const Bytes &network, int length)
{
    const auto whole = static_cast<std::size_t>(length / 8);
    if (!std::equal(network.begin(), network.begin() + whole, address.begin()))
        return false;
    const int rest = length % 8;
    if (rest == 0)
        return true;
    const int mask = 0xff << (8 - rest) & 0xff;
    return ((network[whole] ^ address[whole]) & mask) == 0;
}

std::string_view
trim(std::string_view text)
{
    constexpr const char *kSpace = " \t\r\n";
    const std::size_t first = text.find_first_not_of(kSpace);
    if (first == std::string_view::npos)
        return {};
    return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// A number of at most three digits; -1: it is none.
int
small_number(std::string_view text)
{
    if (text.empty() || text.size() > 3)
        return -1;
    int number = 0;
    for (const char digit : text)
    {
        if (digit < '0' || digit > '9')
            return -1;
        number = number * 10 + (digit - '0');
    }
    return number;
}

} // namespace

Verdict
Networks::parse(std::string_view text)
{
    std::vector<Network> all;
    while (!trim(text).empty())
    {
        const std::size_t comma = std::min(text.find(','), text.size());
        const std::string_view item = trim(text.substr(0, comma));
        text.remove_prefix(std::min(comma + 1, text.size()));
        const std::size_t slash = std::min(item.find('/'), item.size());
        const std::string host(item.substr(0, slash));
        Network network = {};
        std::uint8_t ipv4[4];
        int most = 128;
        if (inet_pton(AF_INET, host.c_str(), ipv4) == 1)
        {
            network.address = mapped(ipv4);
            most = 32;
        }
        else if (inet_pton(AF_INET6, host.c_str(), network.address.data()) != 1)
            return refuse(kHint, "\"%.*s\" is no network", static_cast<int>(clip(item, 100).size()),
                          item.data());
        const int length = slash == item.size() ? most : small_number(item.substr(slash + 1));
        if (length < 0 || length > most)
            return refuse(kHint, "the length of \"%.*s\" is not from 0 to %d",
                          static_cast<int>(clip(item, 100).size()), item.data(), most);
        network.length = length + (most == 32 ? kMappedBits : 0);
        if (all.size() == kMostNetworks)
            return refuse(kHint, "there are more than %zu networks", kMostNetworks);
        all.push_back(network);
    }
    all_ = std::move(all);
    return {};
}

bool
Networks::contain(const Bytes &address) const noexcept
{
    return std::any_of(all_.begin(), all_.end(),
                       [&](const Network &network)
                       { return begins_with(address, network.address, network.length); });
}

bool
Networks::contain(const sockaddr &address) const noexcept
{
    if (address.sa_family == AF_INET)
    {
        sockaddr_in ipv4;
        std::memcpy(&ipv4, &address, sizeof ipv4);
        std::uint8_t bytes[4];
        std::memcpy(bytes, &ipv4.sin_addr, sizeof bytes);
        return contain(mapped(bytes));
    }
    if (address.sa_family != AF_INET6)
        return true;
    sockaddr_in6 ipv6;
    std::memcpy(&ipv6, &address, sizeof ipv6);
    Bytes bytes;
    std::memcpy(bytes.data(), &ipv6.sin6_addr, bytes.size());
    if (contain(bytes))
        return true;
    constexpr Bytes kCompatible = {};
    constexpr Bytes kNat64 = {0, 0x64, 0xff, 0x9b};
    return (begins_with(bytes, kCompatible, kMappedBits) ||
            begins_with(bytes, kNat64, kMappedBits)) &&
           contain(mapped(bytes.data() + 12));
}

std::string
address_text(const sockaddr &address)
{
    char text[INET6_ADDRSTRLEN] = "";
    if (address.sa_family == AF_INET)
    {
        sockaddr_in ipv4;
        std::memcpy(&ipv4, &address, sizeof ipv4);
        (void) inet_ntop(AF_INET, &ipv4.sin_addr, text, sizeof text);
    }
    else if (address.sa_family == AF_INET6)
    {
        sockaddr_in6 ipv6;
        std::memcpy(&ipv6, &address, sizeof ipv6);
        (void) inet_ntop(AF_INET6, &ipv6.sin6_addr, text, sizeof text);
    }
    return text;
}

} // namespace outbox
