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

Bytes
mapped(const Bytes &address, std::size_t at, int inverted = 0)
{
    std::uint8_t ipv4[4];
    for (std::size_t i = 0; i < 4; i++)
        ipv4[i] = static_cast<std::uint8_t>(address[at + i] ^ inverted);
    return mapped(ipv4);
}

// Calls use(address) with each address that packets to this one may end at: an IPv4 address is
// part of one of IPv6 for translators and tunnels, and one that is unspecified is this machine's.
template <class Use>
void
for_each_meaning(const Bytes &address, Use use)
{
    constexpr Bytes kCompatible = {};
    constexpr Bytes kTranslated = {0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    constexpr Bytes kNat64 = {0, 0x64, 0xff, 0x9b};
    constexpr Bytes kLocalNat64 = {0, 0x64, 0xff, 0x9b, 0, 1};
    constexpr Bytes k6to4 = {0x20, 0x02};
    constexpr Bytes kTeredo = {0x20, 0x01};
    constexpr Bytes kLoopback = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    constexpr std::uint8_t kLoopback4[] = {127, 0, 0, 1};
    constexpr std::uint8_t kUnspecified4[] = {0, 0, 0, 0};
    use(address);
    for (const Bytes &prefix : {kCompatible, kTranslated, kNat64})
        if (begins_with(address, prefix, kMappedBits))
            use(mapped(address, 12));
    if (begins_with(address, kLocalNat64, 48))
    {
        use(mapped(address, 12));
        // RFC 6052: behind a prefix of 48 bits the ninth byte is left out.
        const std::uint8_t around[] = {address[6], address[7], address[9], address[10]};
        use(mapped(around));
    }
    if (begins_with(address, k6to4, 16))
        use(mapped(address, 2));
    if (begins_with(address, kTeredo, 32))
    {
        use(mapped(address, 4));
        use(mapped(address, 12, 0xff));
    }
    // ISATAP: 5efe behind one bit that may be either.
    if ((address[8] & ~2) == 0 && address[9] == 0 && address[10] == 0x5e && address[11] == 0xfe)
        use(mapped(address, 12));
    if (address == kCompatible)
        use(kLoopback);
    if (address == mapped(kUnspecified4))
        use(mapped(kLoopback4));
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
    bool found = false;
    for_each_meaning(address,
                     [&](const Bytes &meant)
                     {
                         for (const Network &network : all_)
                             found = found || begins_with(meant, network.address, network.length);
                     });
    return found;
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
    return contain(bytes);
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
