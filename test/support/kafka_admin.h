#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace outbox::test
{

// What an administrator of Kafka does while others produce. Each of these throws unless Kafka has
// confirmed it.

// Replaces the settings of a topic, as in kafka-configs.sh.
void set_topic_config(const std::string &bootstrap, const std::string &topic,
                      const std::map<std::string, std::string> &config);

// Deletes a topic, and waits until Kafka knows it no more: for a moment after its answer it still
// takes records for it, and acknowledges them, which are deleted with it.
void delete_topic(const std::string &bootstrap, const std::string &topic);

// Deletes the records of a partition before this offset, as retention does.
void delete_records(const std::string &bootstrap, const std::string &topic, int partition,
                    int64_t before);

// Lets a user, such as "User:relay", look at and write to a topic.
void allow_write(const std::string &bootstrap, const std::string &principal,
                 const std::string &topic);

// Lets a user look at a topic; writing needs another right.
void allow_describe(const std::string &bootstrap, const std::string &principal,
                    const std::string &topic);

} // namespace outbox::test
