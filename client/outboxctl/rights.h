// The rights that docs/operations.md names, as checks and as grants.
#pragma once

#include "database.h"

#include <string>
#include <vector>

namespace outbox::ctl
{

// One of "emit", "insert", "consume", "wait", "watch", "operate".
struct RightsReport
{
    std::string name;
    std::string lets;                 // what a role with it may do
    bool whole = false;               // it has all of it
    bool any = false;                 // or at least its main part
    std::vector<std::string> missing; // objects, as in grants
};

// What a role may do. Throws Error when there is no such role.
std::vector<RightsReport> look_at_rights(Database &database, const std::string &role);

// The statements that give a role one of them.
std::string grant_statements(const std::string &right, const std::string &role);

} // namespace outbox::ctl
