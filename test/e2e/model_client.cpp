#include "model_client.h"

#include <set>

namespace outbox::test
{

namespace
{

const std::vector<std::string> kSettings = {
    "search_path = ''",
    "datestyle = 'German'",
    "timezone = 'Asia/Kathmandu'",
    "bytea_output = escape",
    "standard_conforming_strings = off",
    "jit_above_cost = 0",
    "session_replication_role = replica",
    "plan_cache_mode = force_generic_plan",
    "max_parallel_workers_per_gather = 4",
    "parallel_setup_cost = 0",
    "parallel_tuple_cost = 0",
    "min_parallel_table_scan_size = 0",
    "outbox.serialize_keys = on",
    "enable_seqscan = off",
    "row_security = off",
    "array_nulls = off",
    "synchronous_commit = local", // off is for what may be lost
    "work_mem = '64kB'",
    "intervalstyle = 'iso_8601'",
    "extra_float_digits = -15",
    "lc_messages = 'C'",
    "lc_numeric = 'C'",
    "role = model_writer",
    "client_min_messages = debug5",
    "temp_buffers = 100",
    "cursor_tuple_fraction = 0.1",
    "xmloption = content",
    "default_transaction_read_only = on"};

// Refused headers and rights, what others and timeouts do, and lost connections.
void
expect_known(const SqlError &error)
{
    static const std::set<std::string> kKnown = {"22023", "42501", "40001", "40P01",
                                                 "57014", "57P01", "57P02", ""};
    EXPECT_EQ(kKnown.count(error.sqlstate()), 1U) << error.sqlstate() << ": " << error.what();
}

} // namespace

void
ModelClient::begin()
{
    levels_.assign(1, {});
    shared_ = "shared" + std::to_string(below(3));
    db_->exec("begin isolation level " +
              one_of({"read committed", "read committed", "repeatable read", "serializable"}));
    for (int i = below(4); i > 0; --i)
        db_->exec("set local " + one_of(kSettings));
}

// Others write this key, too; who has its row is the only one.
void
ModelClient::write_shared()
{
    const std::string n =
        db_->value("update public.shared set n = n + 1 where key = $1 returning n", shared_);
    ModelEvents many = events(4);
    long order = std::stol(n) * 100;
    for (ModelEvent &one : many)
    {
        one.key = shared_;
        one.order = ++order;
    }
    if (below(2) == 0)
        copy_in(many);
    else
        db_->exec("select outbox.emit($1, x->>'k', x->>'t', x->'p', x->'h', null, null, "
                  "(x->>'v')::int) from jsonb_array_elements($2::jsonb) x",
                  database_.type(), json_of(many));
    add(many);
}

void
ModelClient::write_in_time()
{
    db_->exec("set local statement_timeout = '" + std::to_string(1 + below(4)) + "ms'");
    const ModelEvents many = events(500);
    db_->exec("select outbox.emit($1, x->>'k', x->>'t', x->'p', x->'h', null, null, "
              "(x->>'v')::int) from jsonb_array_elements($2::jsonb) x",
              database_.type(), json_of(many));
    add(many);
    db_->exec("set local statement_timeout = '60s'");
}

// One of them is refused, and with it the statement.
void
ModelClient::write_bad()
{
    ModelEvents many = events(20);
    many[static_cast<size_t>(below(static_cast<int>(many.size())))].headers = {{"id", "x"}};
    const std::string rows = "$1, x->>'k', x->>'t', x->'p', x->'h'";
    const std::string from = " from jsonb_array_elements($2::jsonb) x";
    switch (below(3))
    {
    case 0:
        db_->exec("select outbox.emit(" + rows + ")" + from, database_.type(), json_of(many));
        break;
    case 1:
        db_->exec("insert into outbox.events (aggregate_type, aggregate_id, event_type, payload, "
                  "headers) select " +
                      rows + from,
                  database_.type(), json_of(many));
        break;
    default:
        copy_in(many);
    }
    ADD_FAILURE() << "a reserved header was accepted";
}

void
ModelClient::change_savepoints()
{
    const std::string top = "s" + std::to_string(levels_.size() - 1);
    if (levels_.size() == 1 || below(3) == 0)
    {
        db_->exec("savepoint s" + std::to_string(levels_.size()));
        levels_.emplace_back();
    }
    else if (below(2) == 0)
    {
        db_->exec("rollback to " + top);
        levels_.back() = {};
    }
    else
    {
        db_->exec("release " + top);
        const Level inner = levels_.back();
        levels_.pop_back();
        add(inner.events);
        ModelEvents &later = levels_.back().deferred;
        later.insert(later.end(), inner.deferred.begin(), inner.deferred.end());
    }
}

void
ModelClient::write()
{
    switch (below(14))
    {
    case 0:
    case 1:
    case 2:
        return write_one();
    case 3:
    case 4:
        return write_many();
    case 5:
    case 6:
        return write_in_function();
    case 7:
        return write_by_cursor();
    case 8:
        return write_shared();
    case 9:
        return write_in_time();
    case 10:
        return write_bad();
    default:
        return change_savepoints();
    }
}

bool
ModelClient::alive()
{
    try
    {
        db_->exec("");
        return true;
    }
    catch (const SqlError &)
    {
        return false;
    }
}

// Returns whether the transaction goes on.
bool
ModelClient::recover(const SqlError &error)
{
    ++errors_[error.sqlstate()];
    expect_known(error);
    if (alive() && levels_.size() > 1)
    {
        db_->exec("rollback to s" + std::to_string(levels_.size() - 1));
        levels_.back() = {};
        return true;
    }
    if (alive())
        db_->exec("rollback");
    else
        connect();
    return false;
}

bool
ModelClient::goes_on()
{
    try
    {
        write();
        return true;
    }
    catch (const SqlError &error)
    {
        return recover(error);
    }
}

ModelEvents
ModelClient::all_events() const
{
    ModelEvents all;
    for (const Level &level : levels_)
        all.insert(all.end(), level.events.begin(), level.events.end());
    for (const Level &level : levels_)
        all.insert(all.end(), level.deferred.begin(), level.deferred.end());
    return all;
}

void
ModelClient::end(const char *how, const std::function<void()> &send)
{
    try
    {
        send();
        model_.committed(all_events());
        ++committed_;
    }
    catch (const SqlError &error)
    {
        ++errors_[how + (" " + error.sqlstate())];
        expect_known(error);
        if (alive())
            return; // rolled back
        model_.undecided(all_events());
        connect();
    }
}

void
ModelClient::prepare_and_commit()
{
    const std::string gid =
        "'" + database_.name() + " " + std::to_string(number_) + " " + std::to_string(marks_) + "'";
    bool prepared = false;
    try
    {
        db_->exec("prepare transaction " + gid);
        prepared = true;
        if (below(4) == 0)
        {
            db_->exec("rollback prepared " + gid);
            return;
        }
        db_->exec("commit prepared " + gid);
        model_.committed(all_events());
        ++committed_;
    }
    catch (const SqlError &error)
    {
        ++errors_["prepared " + error.sqlstate()];
        expect_known(error);
        if (!alive())
            connect();
        const bool there =
            db_->value("select count(*) from pg_prepared_xacts where gid = " + gid) != "0";
        if (there)
            db_->exec("rollback prepared " + gid);
        else if (prepared)
            model_.undecided(all_events());
    }
}

void
ModelClient::send_at_once(const std::vector<std::string> &statements)
{
#ifdef LIBPQ_HAS_PIPELINING
    if (below(2) == 0)
    {
        const std::vector<std::string> failed = db_->pipeline(statements);
        if (!failed.empty())
            throw SqlError("in a pipeline", failed[0], "");
        return;
    }
#endif
    std::string all;
    for (const std::string &statement : statements)
        all += statement + ";";
    db_->exec(all);
}

// Several statements, sent at once, of which PostgreSQL makes a transaction.
void
ModelClient::implicit_transaction()
{
    levels_.assign(1, {});
    std::vector<std::string> statements;
    for (int i = below(6); i >= 0; --i)
    {
        ModelEvents some = events(5);
        add(some);
        if (below(20) == 0)
            some[0].headers = {{"id", "x"}};
        const std::string rows = "'" + database_.type() + "', x->>'k', x->>'t', x->'p', x->'h'";
        const std::string from =
            " from jsonb_array_elements($json$" + json_of(some) + "$json$::jsonb) x";
        if (below(2) == 0)
            statements.push_back("select outbox.emit(" + rows + ", null, null, (x->>'v')::int)" +
                                 from);
        else
            statements.push_back("insert into outbox.events (aggregate_type, aggregate_id, "
                                 "event_type, payload, headers, schema_version) select " +
                                 rows + ", (x->>'v')::int" + from);
    }
    end("implicit", [&] { send_at_once(statements); });
}

void
ModelClient::transaction()
{
    try
    {
        if (below(8) == 0)
            return implicit_transaction();
        begin();
        for (int i = below(7); i >= 0; --i)
            if (!goes_on())
                return;
        switch (below(8))
        {
        case 0:
            db_->exec("rollback");
            break;
        case 1:
            prepare_and_commit();
            break;
        default:
            end("commit", [&] { db_->exec("commit"); });
        }
    }
    catch (const SqlError &error)
    {
        ++errors_["else " + error.sqlstate()];
        if (alive())
            db_->exec("rollback");
        else
            connect();
    }
}

} // namespace outbox::test
