// SipHash-2-4: a short text's hash that nobody can aim at without the key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace outbox
{

struct SipKey
{
    std::uint64_t k0 = 0;
    std::uint64_t k1 = 0;
};

// As J.-P. Aumasson and D. J. Bernstein define it in "SipHash: a fast short-input PRF" (2012). For
// one text: words of 8 bytes first, least significant byte first, then the rest of it.
class SipHash
{
public:
    explicit SipHash(const SipKey &key) noexcept
        : v0_(key.k0 ^ 0x736f6d6570736575U), v1_(key.k1 ^ 0x646f72616e646f6dU),
          v2_(key.k0 ^ 0x6c7967656e657261U), v3_(key.k1 ^ 0x7465646279746573U)
    {
    }

    void add(std::uint64_t word) noexcept
    {
        v3_ ^= word;
        round();
        round();
        v0_ ^= word;
        length_ += sizeof(word);
    }

    std::uint64_t finish(std::string_view rest) noexcept
    {
        for (; rest.size() >= sizeof(std::uint64_t); rest.remove_prefix(sizeof(std::uint64_t)))
            add(read_word(rest.data()));
        add((length_ + rest.size()) << 56 | read(rest));
        v2_ ^= 0xff;
        for (int i = 0; i < 4; i++)
            round();
        return v0_ ^ v1_ ^ v2_ ^ v3_;
    }

private:
    // Written out, so that it becomes a single load where the machine allows that.
    static std::uint64_t read_word(const char *bytes) noexcept
    {
        const auto byte = [bytes](int i)
        { return std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i); };
        return byte(0) | byte(1) | byte(2) | byte(3) | byte(4) | byte(5) | byte(6) | byte(7);
    }

    static std::uint64_t read(std::string_view bytes) noexcept
    {
        std::uint64_t word = 0;
        for (std::size_t i = 0; i < bytes.size(); i++)
            word |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
        return word;
    }

    static std::uint64_t rotate(std::uint64_t word, int bits) noexcept
    {
        return word << bits | word >> (64 - bits);
    }

    void round() noexcept
    {
        v0_ += v1_;
        v2_ += v3_;
        v1_ = rotate(v1_, 13) ^ v0_;
        v3_ = rotate(v3_, 16) ^ v2_;
        v0_ = rotate(v0_, 32);
        v2_ += v1_;
        v0_ += v3_;
        v1_ = rotate(v1_, 17) ^ v2_;
        v3_ = rotate(v3_, 21) ^ v0_;
        v2_ = rotate(v2_, 32);
    }

    std::uint64_t v0_;
    std::uint64_t v1_;
    std::uint64_t v2_;
    std::uint64_t v3_;
    std::uint64_t length_ = 0; // of which the lowest byte counts
};

} // namespace outbox
