#include "passwords.h"

#include "extension/core/secrets.h"
#include "conninfo.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace outbox::ctl
{

namespace
{

using Options = std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)>;

constexpr const char *kMask = "***";
constexpr std::size_t kLongestName = 63; // the server cuts names off there, and quotes them so
constexpr std::size_t kLargestFile = 1024UL * 1024;
constexpr std::size_t kNone = std::string_view::npos;

// The threads that connect write what libpq says to stderr.
std::mutex mutex;
Secrets known;

std::string
decoded(std::string_view text)
{
    std::string result;
    for (std::size_t i = 0; i < text.size(); i++)
        if (text[i] == '%' && i + 2 < text.size() &&
            std::isxdigit(static_cast<unsigned char>(text[i + 1])) != 0 &&
            std::isxdigit(static_cast<unsigned char>(text[i + 2])) != 0)
        {
            const char digits[] = {text[i + 1], text[i + 2], '\0'};
            result += static_cast<char>(std::strtol(digits, nullptr, 16));
            i += 2;
        }
        else
            result += text[i];
    return result;
}

// In all the forms in which it can be quoted.
void
learn_part(std::string_view value, std::size_t begin, std::size_t end)
{
    const std::string_view part = value.substr(begin, end - begin);
    learn_password(part);
    learn_password(decoded(part));
    if (begin < kLongestName)
        learn_password(value.substr(begin, std::min(end, kLongestName) - begin));
    // libpq takes a list of hosts apart.
    for (std::size_t at = 0; part.find(',') != kNone && at <= part.size();)
    {
        const std::size_t comma = std::min(part.find(',', at), part.size());
        learn_password(part.substr(at, comma - at));
        at = comma + 1;
    }
}

// Whose values are a name or a word, so that what follows a colon has no business there.
bool
is_name(std::string_view option)
{
    for (const std::string_view text :
         {"options", "application_name", "fallback_application_name", "passfile"})
        if (option == text)
            return false;
    return true;
}

bool
is_ipv6(std::string_view text)
{
    const std::string address(text.substr(0, text.find('%')));
    in6_addr ignored = {};
    return inet_pton(AF_INET6, address.c_str(), &ignored) == 1;
}

bool
are_addresses(std::string_view list)
{
    for (std::size_t begin = 0; begin <= list.size();)
    {
        const std::size_t end = std::min(list.find(',', begin), list.size());
        if (list.substr(begin, end - begin).find(':') != kNone &&
            !is_ipv6(list.substr(begin, end - begin)))
            return false;
        begin = end + 1;
    }
    return true;
}

// Where the value behind "password =" begins; kNone when there is none.
std::size_t
find_assignment(std::string_view text, std::size_t from)
{
    constexpr std::string_view kWord = "password";
    for (std::size_t at = from; (at = text.find(kWord, at)) != kNone;)
    {
        at += kWord.size();
        std::size_t equals = at;
        while (equals < text.size() && text[equals] == ' ')
            equals++;
        if (equals < text.size() && text[equals] == '=')
        {
            equals++;
            while (equals < text.size() && text[equals] == ' ')
                equals++;
            return equals;
        }
    }
    return kNone;
}

// What stands where a password would stand if the value were a URI, or a part of one, or a
// connection string.
void
learn_parts_of(std::string_view value, bool name)
{
    const std::size_t scheme = value.find("://");
    const std::size_t begin = scheme == kNone ? 0 : scheme + 3;
    const std::size_t colon = value.find(':', begin);
    const std::size_t first = colon == kNone ? kNone : value.find('@', colon);
    if (first != kNone)
    {
        learn_part(value, colon + 1, value.rfind('@'));
        learn_part(value, colon + 1, first);
    }
    else if (colon != kNone && name && !are_addresses(value))
        learn_part(value, colon + 1, value.size());
    for (std::size_t at = 0; (at = find_assignment(value, at)) != kNone;)
    {
        learn_part(value, at, value.size());
        if (at < value.size() && value[at] == '\'')
            learn_part(value, at + 1, std::min(value.find('\'', at + 1), value.size()));
        else
            learn_part(value, at, std::min(value.find_first_of(" &", at), value.size()));
    }
}

// A line is host:port:database:user:password, with "\" before what is meant literally.
void
learn_line(std::string_view line)
{
    std::string field;
    int number = 0;
    for (std::size_t i = 0; i < line.size(); i++)
    {
        if (line[i] == '\\' && i + 1 < line.size())
            field += line[++i];
        else if (line[i] == ':' && number < 4)
        {
            field.clear();
            number++;
        }
        else
            field += line[i];
    }
    if (number == 4)
        learn_password(field);
}

void
learn_file(const std::string &path)
{
    const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return; // libpq says so if it wants it
    struct stat status = {};
    std::string content;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode))
    {
        char buffer[8192];
        ssize_t count = 0;
        while (content.size() < kLargestFile && (count = read(file, buffer, sizeof buffer)) > 0)
            content.append(buffer, static_cast<std::size_t>(count));
    }
    (void) close(file);
    for (std::size_t begin = 0; begin < content.size();)
    {
        std::size_t end = std::min(content.find('\n', begin), content.size());
        const std::size_t next = end + 1;
        if (end > begin && content[end - 1] == '\r')
            end--;
        if (content[begin] != '#')
            learn_line(std::string_view(content).substr(begin, end - begin));
        begin = next;
    }
}

void
learn_options(const PQconninfoOption *option)
{
    for (; option != nullptr && option->keyword != nullptr; option++)
    {
        if (option->val == nullptr)
            continue;
        if (option->dispchar[0] == '*')
            learn_password(option->val);
        else
            learn_parts_of(option->val, is_name(option->keyword));
        if (std::strcmp(option->keyword, "passfile") == 0)
            learn_file(option->val);
    }
}

// Of a service file nobody else says what is in it.
void
learn_service(const char *name)
{
    const char *value = std::getenv("PGSERVICE");
    const std::string former = value == nullptr ? "" : value;
    if (setenv("PGSERVICE", name, 1) != 0)
        throw std::bad_alloc();
    learn_options(Options(PQconndefaults(), &PQconninfoFree).get());
    if ((value == nullptr ? unsetenv("PGSERVICE") : setenv("PGSERVICE", former.c_str(), 1)) != 0)
        throw std::bad_alloc();
}

void
learn_environment()
{
    for (const char *secret : {"PGPASSWORD", "PGSSLPASSWORD"})
        if (const char *value = std::getenv(secret))
            learn_password(value);
    for (const char *name : {"PGDATABASE", "PGUSER", "PGSERVICE", "PGHOST", "PGHOSTADDR"})
        if (const char *value = std::getenv(name))
            learn_parts_of(value, true);
    if (const char *home = std::getenv("HOME"))
        learn_file(std::string(home) + "/.pgpass");
    // It has the service's, too, and where the password file is.
    learn_options(Options(PQconndefaults(), &PQconninfoFree).get());
}

// scheme://user:password@host: up to the last "@" that can still belong to it.
void
mask_uris(std::string &text)
{
    for (std::size_t at = 0; (at = text.find("://", at)) != kNone;)
    {
        at += 3;
        const std::size_t end = std::min(text.find_first_of(" \t\n\"'", at), text.size());
        const std::size_t colon = text.find(':', at);
        if (colon >= end)
            continue;
        const std::size_t sign = std::string_view(text).substr(0, end).rfind('@');
        if (sign != kNone && sign > colon)
            text.replace(colon + 1, sign - colon - 1, kMask);
    }
}

void
mask_assignments(std::string &text)
{
    for (std::size_t at = 0; (at = find_assignment(text, at)) != kNone;)
    {
        std::size_t end = text.find_first_of(" \t\n\"&", at);
        if (at < text.size() && text[at] == '\'')
            end = std::min(text.find('\'', at + 1), text.size() - 1) + 1;
        text.replace(at, std::min(end, text.size()) - at, kMask);
    }
}

} // namespace

void
learn_password(std::string_view password)
{
    const std::lock_guard<std::mutex> lock(mutex);
    known.add(password);
}

void
learn_passwords_of(const std::string &conninfo)
{
    learn_environment();
    if (conninfo.empty())
        return;
    learn_parts_of(conninfo, !is_connection_string(conninfo));
    if (!is_connection_string(conninfo))
        return;
    const Options options(PQconninfoParse(conninfo.c_str(), nullptr), &PQconninfoFree);
    learn_options(options.get());
    for (const PQconninfoOption *option = options.get();
         option != nullptr && option->keyword != nullptr; option++)
        if (option->val != nullptr && std::strcmp(option->keyword, "service") == 0)
            learn_service(option->val);
}

void
learn_passwords_of(PGconn *connection)
{
    if (const char *password = PQpass(connection))
        learn_password(password);
    learn_options(Options(PQconninfo(connection), &PQconninfoFree).get());
}

std::string
without_passwords(std::string_view text)
{
    std::string result(text);
    {
        const std::lock_guard<std::mutex> lock(mutex);
        known.mask(result);
    }
    mask_uris(result);
    mask_assignments(result);
    return result;
}

} // namespace outbox::ctl
