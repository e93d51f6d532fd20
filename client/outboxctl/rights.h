// The rights that docs/operations.md names, as checks and as grants.
#pragma once

#include "database.h"

#include <string>
#include <vector>

namespace outbox::ctl
{

// One of "emit", "consume", "watch", "operate", "read payloads".
struct RightsReport
{
    std::string name;
    std::string lets;                 // what a role with it may do
    bool whole = false;               // it has all of it
    bool any = false;                 // or at least its main part
    std::vector<std::string> missing; // objects, as in grants
};

// What the role with this OID may do: a name may be in an encoding that cannot be sent.
std::vector<RightsReport> look_at_rights(Database &database, const std::string &role);

// The statement that gives a role one of them; the role's name is quoted as an identifier.
std::string grant_statement(const std::string &right, const std::string &role);

} // namespace outbox::ctl
