// Every block of SQL in the documentation runs: the blocks of a page one after the other, by psql,
// in a database "shop" of the page's own. CONTRIBUTING.md says what comments a page may have for
// it.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>

#include "servers.h"
#include "support/process.h"
#include "support/tree.h"

using namespace outbox::test;
namespace fs = std::filesystem;

namespace
{

// What a comment says about the block that follows it.
enum class Treatment
{
    kRun,
    kNotRun,
    kSignatures
};

const std::regex kBlock("^ *```sql *$");
const std::regex kBlockEnd("^ *``` *$");
const std::regex kComment("^ *<!-- sql ([a-z ]+?)(: ?(.*?))?( *-->)? *$");
const std::regex kSignature(R"(^outbox\.(\w+)\((.*)\)(?: returns (.*))?$)");

std::string
quoted(const std::string &text)
{
    std::string quoted = "'";
    for (const char c : text)
        quoted += c == '\'' ? "''" : std::string(1, c);
    return quoted + "'";
}

// Statements, on one line, that fail unless the catalogue has a function of this signature: it is
// declared elsewhere, so that PostgreSQL writes both in its own way.
std::string
comparison(const std::string &signature)
{
    std::smatch part;
    if (!std::regex_match(signature, part, kSignature))
        throw std::runtime_error("this is no signature: " + signature);
    const std::string name = part[1];
    const std::string arguments = part[2];
    const bool has_out = std::regex_search(arguments, std::regex("(^|, *)out "));
    const std::string result = part[3].matched ? " returns " + std::string(part[3])
                               : has_out       ? ""
                                               : " returns void";
    return "set client_min_messages = warning; create schema documented; create function "
           "documented." +
           name + "(" + arguments + ")" + result +
           " language plpgsql as 'begin end'; do $$ begin if not exists (select from pg_proc a, "
           "pg_proc b where a.pronamespace = 'documented'::regnamespace and b.pronamespace = "
           "'outbox'::regnamespace and a.proname = b.proname and pg_get_function_arguments(a.oid) "
           "= pg_get_function_arguments(b.oid) and pg_get_function_result(a.oid) = "
           "pg_get_function_result(b.oid)) then raise exception 'the signature is another one: %', "
           "(select string_agg(oid::regprocedure || ' with ' || pg_get_function_arguments(oid) || "
           "' returns ' || pg_get_function_result(oid), '; ') from pg_proc where pronamespace = "
           "'outbox'::regnamespace and proname = " +
           quoted(name) +
           "); end if; end $$; drop schema documented cascade; reset client_min_messages;";
}

// Of one page. It has the page's number of lines, so that psql tells the page's lines.
class Script
{
public:
    explicit Script(std::istream &page)
    {
        for (std::string line; std::getline(page, line);)
            lines_.push_back(translate(line));
        if (in_block_ || in_comment_ || treatment_)
            throw std::runtime_error("the page ends within a block, or a comment has none");
    }

    bool empty() const { return blocks_ == 0; }

    std::string text() const
    {
        std::string text;
        for (const std::string &line : lines_)
            text += line + "\n";
        return text;
    }

private:
    std::string translate(const std::string &line)
    {
        if (in_comment_)
        {
            in_comment_ = line.find("-->") == std::string::npos;
            return line.substr(0, line.find("-->"));
        }
        if (in_block_ && std::regex_match(line, kBlockEnd))
            return end_block();
        if (in_block_)
            return translate_sql(line);
        std::smatch comment;
        if (std::regex_match(line, comment, kComment))
            return begin_comment(comment[1], comment[3], comment[4].matched);
        if (std::regex_match(line, kBlock))
        {
            in_block_ = true;
            ++blocks_;
        }
        return "";
    }

    std::string begin_comment(const std::string &kind, const std::string &text, bool ended)
    {
        in_comment_ = !ended;
        if (kind == "before")
            return text;
        if (kind == "not run" && !text.empty() && ended)
            treatment_ = Treatment::kNotRun;
        else if (kind == "signatures" && ended)
            treatment_ = Treatment::kSignatures;
        else
            throw std::runtime_error("a comment that is not understood: sql " + kind);
        return "";
    }

    std::string translate_sql(const std::string &line)
    {
        if (treatment_ == Treatment::kNotRun)
            return "";
        if (treatment_ != Treatment::kSignatures)
            return line;
        const std::string declared = std::regex_replace(line, std::regex(" *--.*$"), "");
        std::string ended;
        if (declared.rfind("outbox.", 0) == 0)
            ended = end_signature();
        signature_ += std::regex_replace(declared, std::regex("^ +"), " ");
        return ended;
    }

    std::string end_signature()
    {
        const std::string signature = std::move(signature_);
        signature_.clear();
        return signature.empty() ? "" : comparison(signature);
    }

    std::string end_block()
    {
        in_block_ = false;
        treatment_.reset();
        return end_signature();
    }

    std::vector<std::string> lines_;
    std::optional<Treatment> treatment_;
    std::string signature_; // as far as it was read
    bool in_block_ = false;
    bool in_comment_ = false;
    int blocks_ = 0;
};

// Relative to the source. Contracts, in docs/events, may have no comments, and name variables of an
// application.
std::vector<std::string>
pages()
{
    std::vector<std::string> pages = {"README.md", "client/README.md"};
    for (const fs::directory_entry &entry : fs::directory_iterator(in_source("docs")))
        if (entry.path().extension() == ".md")
            pages.push_back(fs::relative(entry.path(), in_source("")).string());
    pages.erase(std::remove_if(pages.begin(), pages.end(),
                               [](const std::string &page)
                               {
                                   std::ifstream file(in_source(page));
                                   const std::string text((std::istreambuf_iterator<char>(file)),
                                                          std::istreambuf_iterator<char>());
                                   return text.find("```sql\n") == std::string::npos;
                               }),
                pages.end());
    std::sort(pages.begin(), pages.end());
    return pages;
}

class DocumentationSql : public testing::TestWithParam<std::string>
{
protected:
    static void SetUpTestSuite()
    {
        // A page may want logical replication, or to see what comes before durability.
        server_ = std::make_unique<OwnCluster>(Settings{{"wal_level", "logical"}});
    }
    static void TearDownTestSuite() { server_.reset(); }

    void SetUp() override
    {
        Db(*server_, "postgres").exec("create database shop");
        Db(*server_, "shop").exec("create extension outbox");
    }

    // Whatever a page has made or set is gone afterwards.
    void TearDown() override
    {
        Db db(*server_, "postgres");
        db.exec("drop database shop");
        for (const std::string &role :
             db.column("select quote_ident(rolname) from pg_roles where oid > 16383"))
            db.exec("drop role " + role);
        db.exec("alter system reset all");
        server_->reload();
    }

    static std::unique_ptr<OwnCluster> server_;
};

std::unique_ptr<OwnCluster> DocumentationSql::server_;

} // namespace

TEST_P(DocumentationSql, RunsAsItIsWritten)
{
    std::ifstream page(in_source(GetParam()));
    const Script script(page);
    ASSERT_FALSE(script.empty());
    const fs::path file = run_dir() / fs::path(GetParam()).filename();
    std::ofstream(file) << script.text();

    Command psql({PgCluster::program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d",
                  server_->conninfo("shop"), "-f", file.filename().string()});
    psql.directory = run_dir().string();
    psql.environment = {{"PGOPTIONS", "-c statement_timeout=20s"}, {"PAGER", "cat"}};
    const Finished ran = run(psql);
    EXPECT_TRUE(ran.ok()) << GetParam() << ", in lines of the page:\n" << ran.output;
}

INSTANTIATE_TEST_SUITE_P(Pages, DocumentationSql, testing::ValuesIn(pages()),
                         [](const testing::TestParamInfo<std::string> &page)
                         {
                             std::string name = page.param;
                             for (char &c : name)
                                 c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                             return name;
                         });
