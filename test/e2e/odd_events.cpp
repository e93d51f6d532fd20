#include "odd_events.h"

#include <algorithm>

namespace outbox::test
{

namespace
{

void
prepare(const TestDatabase &database, PgCluster &server, const std::string &encoding,
        const Settings &settings)
{
    if (encoding != "UTF8")
    {
        Db db(server, "postgres");
        db.exec("drop database " + database.name());
        db.exec("create database " + database.name() + " template template0 encoding '" + encoding +
                "' lc_collate 'C' lc_ctype 'C'");
    }
    Settings all = {{"outbox.backoff_initial", "50ms"},
                    {"outbox.backoff_max", "200ms"},
                    {"outbox.max_attempts", "3"}};
    for (const auto &[name, value] : settings)
        all[name] = value;
    Db db = database.connect();
    for (const auto &[name, value] : all)
        db.exec("alter database " + database.name() + " set " + name + " = '" + value + "'");
    db.exec("create extension outbox");
    db.exec("alter event trigger outbox_keep_triggers disable");
    for (int slot = 0; slot < 8; ++slot)
        db.exec("alter table outbox.events_" + std::to_string(slot) +
                " disable trigger \"~before_insert\"");
}

} // namespace

std::string
id_of(const Record &record)
{
    // The relay's come first.
    for (const auto &[name, value] : record.headers)
        if (name == "id" || name == "ce_id")
            return value.value_or("");
    return "";
}

OddEvents::OddEvents(PgCluster &server, const std::string &encoding, const Settings &settings)
    : database_(server, TestDatabase::Extension::kNotInstalled),
      db_((prepare(database_, server, encoding, settings), database_.connect())),
      consumer_(kafka().bootstrap(), {database_.topic()})
{
    kafka().create_topic(database_.topic());
}

std::string
OddEvents::emit(const std::string &key)
{
    return db_.value("select outbox.emit($1, $2, 'good', '{}')", database_.type(), key);
}

std::string
OddEvents::insert(const std::map<std::string, std::string> &columns)
{
    std::map<std::string, std::string> all = {{"seq", "nextval('outbox.events_seq')"},
                                              {"xid", "txid_current()"},
                                              {"aggregate_type", "'" + database_.type() + "'"},
                                              {"aggregate_id", "'odd'"},
                                              {"event_type", "'odd'"},
                                              {"payload", "'{}'"}};
    for (const auto &[name, value] : columns)
        all[name] = value;
    std::string names;
    std::string values;
    for (const auto &[name, value] : all)
    {
        names += (names.empty() ? "" : ", ") + name;
        values += (values.empty() ? "" : ", ") + value;
    }
    return db_.value("insert into outbox.events (" + names + ") values (" + values +
                     ") returning coalesce(id::text, '')");
}

void
OddEvents::check_inserts(bool on)
{
    if (on == checking_)
        return;
    db_.exec("alter table outbox.events_0 " + std::string(on ? "enable always" : "disable") +
             " trigger \"~before_insert\"");
    checking_ = on;
}

std::string
OddEvents::state(const std::string &id)
{
    return db_.exec("select max(state) from outbox.deliveries where event_id = $1", id)
        .field(0)
        .value_or("");
}

std::string
OddEvents::error(const std::string &id)
{
    return db_.exec("select max(last_error) from outbox.deliveries where event_id = $1", id)
        .field(0)
        .value_or("");
}

bool
OddEvents::fails(const std::string &id)
{
    return wait_until(std::chrono::seconds(20), [&] { return state(id) == "FAILED"; });
}

bool
OddEvents::arrive(const std::vector<std::string> &ids)
{
    const auto came = [&](const std::vector<Record> &records)
    {
        return std::all_of(ids.begin(), ids.end(),
                           [&](const std::string &id)
                           {
                               return std::any_of(records.begin(), records.end(),
                                                  [&](const Record &record)
                                                  { return id_of(record) == id; });
                           });
    };
    return consumer_.read_until(std::chrono::seconds(20), came) && ids.size() == [&]
    {
        size_t count = 0;
        for (const Record &record : consumer_.records())
            count += std::count(ids.begin(), ids.end(), id_of(record)) > 0;
        return count;
    }();
}

std::vector<std::string>
OddEvents::arrived(const std::string &key) const
{
    std::vector<std::string> ids;
    for (const Record &record : consumer_.records())
        if (record.key == key)
            ids.push_back(id_of(record));
    return ids;
}

std::string
OddEvents::describe()
{
    std::string text = db_.value("select to_jsonb(s) - 'last_error' from outbox.relay_status s");
    for (const std::string &row :
         db_.column("select concat_ws(' ', seq, topic, state, attempts, last_error) from "
                    "outbox.deliveries order by seq limit 10"))
        text += "\n" + row;
    return text;
}

} // namespace outbox::test
