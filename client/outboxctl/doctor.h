// What "outboxctl doctor" finds.
#pragma once

#include "commands.h"
#include "topic_pattern.h"

#include <optional>
#include <string>
#include <vector>

namespace outbox::ctl
{

enum class Level
{
    kOk,
    kNote,    // worth knowing
    kWarning, // a promise or an operation is weaker than it may look
    kProblem, // something does not work, or a promise is broken
    kUnknown, // this role may not look
};

struct Finding
{
    std::string
        area; // "server", "extension", "relay", "subscriptions", "rights", "settings", "kafka"
    Level level;
    std::string text;
    std::string remedy; // what to do, empty when there is nothing
};

// "ok", "note", "warning", "problem", "unknown"
const char *name_of(Level level);

class Findings
{
public:
    void add(const std::string &area, Level level, const std::string &text,
             const std::string &remedy = "")
    {
        all_.push_back({area, level, text, remedy});
    }
    const std::vector<Finding> &all() const { return all_; }

private:
    std::vector<Finding> all_;
};

// The server's part; returns whether the extension is there and usable.
bool examine_server(Database &database, Findings &findings);
void examine_relay(Database &database, Findings &findings);
void examine_subscriptions(Database &database, Findings &findings);
void examine_rights(Database &database, const DoctorOptions &options, Findings &findings);
void examine_settings(Database &database, Findings &findings);
void examine_retention(Database &database, Findings &findings);   // settings
void examine_maintenance(Database &database, Findings &findings); // what holds the relay's back

// Kafka's part, as seen from here. Without the extension there are only the options to go by.
void examine_kafka(Database &database, bool extension, const KafkaOptions &options,
                   Findings &findings);

} // namespace outbox::ctl
