#include "inputs.h"

#include <random>
#include <stdexcept>

#include <fmt/format.h>

namespace outbox::bench
{

namespace
{

std::string
words(std::mt19937 &random, size_t length)
{
    static constexpr char kLetters[] = "abcdefghijklmnopqrstuvwxyz     ";
    std::uniform_int_distribution<size_t> letter(0, sizeof(kLetters) - 2);
    std::string text;
    while (text.size() < length)
        text += kLetters[letter(random)];
    return text;
}

// Names in the order, and spaces where, jsonb has them.
std::string
order(std::mt19937 &random, size_t number)
{
    std::uniform_int_distribution<int> any(100000, 999999);
    const std::string before = fmt::format(
        R"({{"id": {}, "items": [{{"qty": {}, "sku": "SKU-{}", "price": {}}}], "total": {}, )"
        R"("status": "placed", "comment": ")",
        1000000 + number, any(random) % 9 + 1, any(random), any(random), any(random));
    const std::string after = fmt::format(
        R"(", "currency": "EUR", "placed_at": "2026-01-31T09:05:00Z", "customer_id": {}}})",
        any(random));
    return before + words(random, kPayloadBytes - before.size() - after.size()) + after;
}

} // namespace

const std::vector<Input> &
inputs()
{
    static const std::vector<Input> all = []
    {
        std::mt19937 random(20260131);
        std::vector<Input> made;
        made.reserve(kKeys);
        for (size_t i = 0; i < kKeys; i++)
            made.push_back({fmt::format("order-{:05}", i), order(random, i)});
        return made;
    }();
    return all;
}

void
load_inputs(test::Db &db)
{
    db.exec("create table bench_inputs (n int primary key, key text not null, payload jsonb not "
            "null)");
    std::string lines;
    for (size_t i = 0; i < inputs().size(); i++)
        lines += fmt::format("{}\t{}\t{}\n", i, inputs()[i].key, inputs()[i].payload);
    db.copy_in("copy bench_inputs from stdin", lines);
    db.exec("vacuum analyze bench_inputs");

    const std::vector<std::string> printed =
        db.column("select payload::text from bench_inputs order by n");
    for (size_t i = 0; i < inputs().size(); i++)
        if (printed.at(i) != inputs()[i].payload || printed[i].size() != kPayloadBytes)
            throw std::logic_error("jsonb prints a payload differently: " + printed[i]);
}

} // namespace outbox::bench
