// Values are jsonb's own text, whatever the document: the relay does not use the server's code for
// it.
#include <array>
#include <map>
#include <random>

#include "servers.h"
#include "support/events.h"
#include "workload.h"

using namespace outbox::test;

namespace
{

// Writes random JSON documents with everything that jsonb stores in its own way: escapes, texts of
// all lengths, numbers beyond double, empty and long containers, deep nesting, bare scalars.
class RandomJson
{
public:
    explicit RandomJson(unsigned seed) : random_(seed) {}

    std::string document() { return value(0); }

private:
    static constexpr int kDeepest = 6;

    size_t below(size_t limit) { return random_() % limit; }

    std::string value(int depth)
    {
        switch (below(depth < kDeepest ? 8 : 6))
        {
        case 0:
            return "null";
        case 1:
            return below(2) != 0 ? "true" : "false";
        case 2:
        case 3:
            return number();
        case 4:
        case 5:
            return string();
        case 6:
            return container(depth, '[', ']', false);
        default:
            return container(depth, '{', '}', true);
        }
    }

    std::string number()
    {
        static const std::array<const char *, 10> kNumbers = {
            "0",   "-0.0", "1.10", "12345678901234567890123",  "1e400", "-1.5e-300",
            "0.1", "42",   "-7",   "100000000000000000000.000"};
        if (below(3) == 0)
            return kNumbers[below(kNumbers.size())];
        std::string text = below(2) != 0 ? "-" : "";
        text += below(4) == 0
                    ? "0"
                    : std::to_string(1 + below(9)) + digits(below(below(9) == 0 ? 300 : 12));
        if (below(2) != 0)
            text += "." + digits(1 + below(below(9) == 0 ? 90 : 12));
        if (below(6) == 0)
            text += (below(2) != 0 ? "e" : "e-") + std::to_string(below(40));
        return text;
    }

    // Runs of zeros and nines are where groups of digits begin and end in other places.
    std::string digits(size_t count)
    {
        std::string text;
        while (text.size() < count)
            text.append(1 + below(5),
                        static_cast<char>('0' + (below(2) != 0 ? below(10) : 9 * below(2))));
        return text.substr(0, count);
    }

    std::string string()
    {
        static const std::array<const char *, 14> kPieces = {
            "a",       "plain text of some length ",
            "\\\"",    "\\\\",
            "\\n",     "\\t\\r\\b\\f",
            "\\u0001", "\\u001f",
            "ä",       "日本語",
            "😀",       "/",
            "\x7f",    " "};
        std::string text = "\"";
        for (size_t i = below(8); i > 0; i--)
            text += kPieces[below(kPieces.size())];
        return text + '"';
    }

    std::string container(int depth, char open, char close, bool keys)
    {
        // More than 32 children have offsets among their lengths.
        const size_t children = below(16) == 0 ? 30 + below(80) : below(5);
        std::string text(1, open);
        for (size_t i = 0; i < children; i++)
        {
            text += i > 0 ? "," : "";
            text += keys ? string() + ':' : "";
            text += value(depth + (children > 8 ? kDeepest : 1));
        }
        return text + close;
    }

    std::mt19937 random_;
};

} // namespace

TEST(JsonbText, EveryDocumentArrivesAsTheServerWritesIt)
{
    constexpr int kDocuments = 3000;
    TestDatabase database(cluster());
    Db db = database.connect();
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    RandomJson json(choose_seed());
    db.exec("begin");
    for (int i = 0; i < kDocuments; i++)
        db.exec("select outbox.emit($1, 'a', 'e', $2::jsonb)", database.type(), json.document());
    db.exec("commit");
    ASSERT_TRUE(consumer.read_count(kDocuments, std::chrono::seconds(60)));

    const Result rows = db.exec("select id, payload::text from outbox.events");
    std::map<std::string, std::string> texts;
    for (int row = 0; row < rows.rows(); row++)
        texts.emplace(rows.text(row, 0), rows.text(row, 1));
    for (const Record &record : consumer.records())
        ASSERT_EQ(record.value, texts.at(record.header("id").value()));
}
