// An act in words.
#include "acts.h"

#include <cstdio>

namespace outbox::sim
{

std::string
to_words(const Act &act)
{
    constexpr const char *kWords[] = {"session %d begins",
                                      "session %d emits: type %d, key %d, fault %d, %d bytes",
                                      "session %d sets a savepoint",
                                      "session %d rolls back to the savepoint",
                                      "session %d prepares",
                                      "session %d commits (waits for the disk: %d)",
                                      "session %d rolls back",
                                      "broker %d goes down",
                                      "broker %d is well",
                                      "broker %d hangs",
                                      "broker %d answers slower by %d ms",
                                      "broker %d: connections break before %d answers",
                                      "topic%d, partition %d: the leader is broker %d",
                                      "topic%d, partition %d: too few replicas (%d)",
                                      "topic%d is missing",
                                      "topic%d is forbidden (hidden: %d)",
                                      "topic%d is there and allowed",
                                      "topic%d takes batches of at most %d bytes",
                                      "topic%d looks at records: %d",
                                      "no sink can be opened: %d",
                                      "the endpoint asks never to be called again: %d",
                                      "a session locks table %d for %d ms",
                                      "the disk is full for %d statements",
                                      "the server crashes",
                                      "the relay is killed after %d statements",
                                      "the relay is restarted",
                                      "the log is flushed",
                                      "the standby lags: %d",
                                      "new events go to the next slot",
                                      "a slot is emptied",
                                      "the clock is set by %d s",
                                      "the disk is slow: %d us for each row",
                                      "the machine is slow: %d us for each look at the clock",
                                      "an operator pauses",
                                      "an operator resumes",
                                      "an operator retries what has failed",
                                      "an operator discards failed event no. %d",
                                      "a session holds row no. %d",
                                      "the session lets go of its rows",
                                      "type %d goes to topic%d",
                                      "type %d: later events of a key wait: %d",
                                      "the policy: %d attempts, later events wait: %d",
                                      "a person repairs what cannot be read",
                                      "a transaction creates it: types %x, retained: %d, emits: %d",
                                      "a transaction alters it: types %x",
                                      "a transaction attaches it, retained: %d",
                                      "a transaction drops it",
                                      "that transaction commits: %d",
                                      "an operator has type %d replayed, at most %d, %d a second",
                                      "an operator cancels the replay"};
    char text[128];
    char line[200];
    char subject[40] = "";
    if (act.subscription > 0)
        std::snprintf(subject, sizeof(subject), "subscription %d: ", act.subscription);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
    std::snprintf(text, sizeof(text), kWords[static_cast<int>(act.kind)], act.a, act.b, act.c,
                  act.d, act.e);
#pragma GCC diagnostic pop
    std::snprintf(line, sizeof(line), "%10.6f  %s%s", static_cast<double>(act.at) / kSecond,
                  subject, text);
    return line;
}

} // namespace outbox::sim
