// The passwords of connecting, as far as they can be known, kept out of all that is shown.
#pragma once

#include <libpq-fe.h>

#include <string>
#include <string_view>

namespace outbox::ctl
{

// What is learnt holds for the whole process. Values shorter than four bytes are not remembered:
// they cannot be told from ordinary text.
void learn_password(std::string_view password);

// Before connecting: of what stands after -d, which check_conninfo() has let pass, of the
// environment, the service and the password file. A name that looks as if a connection string had
// got into it, such as PGDATABASE=postgresql://…, may have a password, too.
void learn_passwords_of(const std::string &conninfo);

// Afterwards: what libpq has found for it.
void learn_passwords_of(PGconn *connection);

// Each text of libpq and of the server passes this on its way to anybody: with "***" for every
// password that was learnt, and for what stands where URIs and connection strings have theirs.
std::string without_passwords(std::string_view text);

} // namespace outbox::ctl
