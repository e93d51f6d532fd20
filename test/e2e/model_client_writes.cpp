// What a client writes, and by which way.
#include "model_client.h"

namespace outbox::test
{

namespace
{

constexpr const char *kSetup = R"(
create table shared (key text primary key, n bigint not null default 0);
insert into shared select 'shared' || i from generate_series(0, 2) i;
create table outgoing (type text, events jsonb);
create table outgoing_later (type text, events jsonb);
create function outgoing_write() returns trigger language plpgsql as $f$
begin
  if tg_argv[0] = 'emit' then
    perform outbox.emit(new.type, x->>'k', x->>'t', x->'p', x->'h', schema_version => (x->>'v')::int)
      from jsonb_array_elements(new.events) x;
  else
    insert into outbox.events (aggregate_type, aggregate_id, event_type, payload, headers, schema_version)
      select new.type, x->>'k', x->>'t', x->'p', x->'h', (x->>'v')::int from jsonb_array_elements(new.events) x;
  end if;
  return null;
end $f$;
create trigger a after insert on outgoing for each row execute function outgoing_write('emit');
create constraint trigger a after insert on outgoing_later deferrable initially deferred
  for each row execute function outgoing_write('insert');
alter table outgoing enable always trigger a;
alter table outgoing_later enable always trigger a;
create function emit_each(type text, events jsonb) returns void language plpgsql as $f$
declare x jsonb;
begin
  for x in select value from jsonb_array_elements(events) loop
    perform outbox.emit(type, x->>'k', x->>'t', x->'p', x->'h', null, null, (x->>'v')::int);
  end loop;
end $f$;
create function emit_but(type text, before jsonb, undone jsonb, after jsonb) returns void language plpgsql as $f$
begin
  perform public.emit_each(type, before);
  begin
    perform outbox.emit(type, x->>'k', x->>'t', x->'p', x->'h') from jsonb_array_elements(undone) x;
    perform 1 / 0;
  exception when division_by_zero then
    perform public.emit_each(type, after);
  end;
end $f$;
create function emit_assigned(type text, one jsonb, undone boolean) returns void language plpgsql as $f$
declare id uuid;
begin
  for i in 1..3 loop
    id := outbox.emit(type, one->>'k', one->>'t', one->'p', one->'h', null, null, (one->>'v')::int);
    exit when not undone;
  end loop;
  if undone then
    raise exception 'undone';
  end if;
exception when raise_exception then
  null;
end $f$;
grant all on all tables in schema public to model_writer;
)";

constexpr const char *kColumns =
    "(aggregate_type, aggregate_id, event_type, payload, headers, schema_version)";

// As jsonb orders the members of an object.
struct ByLength
{
    bool operator()(const std::string &a, const std::string &b) const
    {
        return a.size() != b.size() ? a.size() < b.size() : a < b;
    }
};

std::string
hex(const std::string &bytes)
{
    std::string text = "\\x";
    for (const char c : bytes)
    {
        char two[3];
        std::snprintf(two, sizeof(two), "%02x", static_cast<unsigned char>(c));
        text += two;
    }
    return text;
}

std::string
headers_json(const ModelEvent &event)
{
    std::string text = "{";
    for (const auto &[name, value] : event.headers)
        text += (text.size() > 1 ? ", \"" : "\"") + name + "\": \"" + value + "\"";
    return text + "}";
}

std::string
copy_text(const std::string &text)
{
    std::string escaped;
    for (const char c : text)
        escaped += c == '\\' ? "\\\\" : c == '\t' ? "\\t" : c == '\n' ? "\\n" : std::string(1, c);
    return escaped;
}

} // namespace

void
ModelClient::prepare(Db &db)
{
    db.exec(
        "do $$ begin create role model_writer login; exception when duplicate_object then null; "
        "end $$");
    db.exec(kSetup);
    db.exec("select outbox.grant_emitter('model_writer')");
}

ModelClient::ModelClient(const TestDatabase &database, Model &model, int number, unsigned seed)
    : database_(database), model_(model), number_(number), random_(seed)
{
    connect();
}

std::string
ModelClient::one_of(const std::vector<std::string> &choices)
{
    return choices[static_cast<size_t>(below(static_cast<int>(choices.size())))];
}

// The text inside of the quotes, as PostgreSQL writes it.
std::string
ModelClient::json_string()
{
    std::string text;
    for (int i = below(6); i > 0; --i)
        text += one_of({"a", "Z", " ", "\\\"", "\\\\", "\\n", "\\t", "\\u0001", "\u00e9", "\u20ac",
                        "\U0001f600", "/", "\x7f", "'", "$", "\\u001f", "xxxxxxxx"});
    if (below(20) == 0)
        text += std::string(static_cast<size_t>(below(5000)), 'y');
    return text;
}

std::string
ModelClient::json(int depth)
{
    switch (below(depth > 0 ? 8 : 5))
    {
    case 0:
        return one_of({"0", "-7", "0.000", "123456789012345678901234567890",
                       std::to_string(below(1000000)) + ".2500"});
    case 1:
        return one_of({"null", "true", "false", "[]", "{}"});
    case 2:
    case 3:
    case 4:
        return "\"" + json_string() + "\"";
    case 5:
    {
        std::string text = "[";
        for (int i = below(4); i >= 0; --i)
            text += json(depth - 1) + (i > 0 ? ", " : "");
        return text + "]";
    }
    default:
    {
        std::map<std::string, std::string, ByLength> members;
        for (int i = below(4); i >= 0; --i)
            members[one_of({"a", "b", "id", "name", "k" + std::to_string(below(9))})] =
                json(depth - 1);
        std::string text = "{";
        for (const auto &[name, value] : members)
            text += (text.size() > 1 ? ", \"" : "\"") + name + "\": " + value;
        return text + "}";
    }
    }
}

ModelEvent
ModelClient::event()
{
    ModelEvent event;
    event.mark = std::to_string(number_) + "." + std::to_string(++marks_);
    event.key = "key" + std::to_string(number_) + "." + std::to_string(below(3));
    if (below(8) != 0)
        event.payload = json(3);
    std::map<std::string, std::string, ByLength> headers;
    for (int i = below(6) - 2; i > 0; --i)
        headers["h" + std::to_string(below(40))] = one_of({"", "x", "00-4bf9", "\u00e9", "7"});
    event.headers.assign(headers.begin(), headers.end());
    if (below(4) == 0)
        event.version = std::to_string(below(100));
    return event;
}

ModelEvents
ModelClient::events(int most)
{
    ModelEvents events;
    for (int i = below(most); i >= 0; --i)
        events.push_back(event());
    return events;
}

std::string
ModelClient::json_of(const ModelEvents &events)
{
    std::string text;
    for (const ModelEvent &event : events)
    {
        text += text.empty() ? "[" : ", ";
        text += R"({"k": ")" + event.key + R"(", "t": ")" + event.mark + "\"";
        if (event.payload)
            text += ", \"p\": " + *event.payload;
        if (!event.headers.empty())
            text += ", \"h\": " + headers_json(event);
        if (event.version)
            text += ", \"v\": " + *event.version;
        text += "}";
    }
    return text.empty() ? "[]" : text + "]";
}

void
ModelClient::add(const ModelEvents &events)
{
    ModelEvents &all = levels_.back().events;
    all.insert(all.end(), events.begin(), events.end());
}

void
ModelClient::write_one()
{
    ModelEvent one = event();
    const Param headers = one.headers.empty() ? Param() : Param(headers_json(one));
    const std::string type = database_.type();
    switch (below(5))
    {
    case 0:
        db_->exec("select outbox.emit($1, $2, $3, $4, $5, null, null, $6)", type, one.key, one.mark,
                  one.payload, headers, one.version);
        break;
    case 1:
        db_->exec("select outbox.emit($1, 'other', $3, $4::jsonb, $5, $2, gen_random_uuid(), $6)",
                  type, one.key, one.mark, one.payload, headers, one.version);
        break;
    case 2:
    {
        std::string bytes;
        for (int i = below(60); i > 0; --i)
            bytes += static_cast<char>(below(256));
        one.payload = bytes;
        db_->exec("select outbox.emit_bytes($1, $2, $3, $4, $5, schema_version => $6)", type,
                  one.key, one.mark, hex(bytes), headers, one.version);
        break;
    }
    case 3:
        db_->exec(std::string("insert into outbox.events ") + kColumns +
                      " values ($1, $2, $3, $4, $5, $6)",
                  type, one.key, one.mark, one.payload, headers, one.version);
        break;
    default:
        db_->exec("insert into outbox.events (id, created_at, partition_key, payload_bytes, "
                  "aggregate_type, aggregate_id, event_type, headers, schema_version) values "
                  "(outbox.uuid_v7(), '2020-02-02', $2, $4, $1, 'other', $3, $5, $6)",
                  type, one.key, one.mark, one.payload ? Param(hex(*one.payload)) : Param(),
                  headers, one.version);
    }
    add({one});
}

void
ModelClient::write_many()
{
    const ModelEvents many = events(30);
    const std::string rows = "$1, x->>'k', x->>'t', x->'p', x->'h'";
    const std::string from = " from jsonb_array_elements($2::jsonb) x";
    switch (below(4))
    {
    case 0:
        db_->exec("select outbox.emit(" + rows + ", null, null, (x->>'v')::int)" + from,
                  database_.type(), json_of(many));
        break;
    case 1:
        db_->exec(std::string("insert into outbox.events ") + kColumns + " select " + rows +
                      ", (x->>'v')::int" + from,
                  database_.type(), json_of(many));
        break;
    case 2:
        db_->exec("with e as (select outbox.emit(" + rows +
                      ", schema_version => (x->>'v')::int) as id" + from +
                      ") select count(id) from e",
                  database_.type(), json_of(many));
        break;
    default:
        copy_in(many);
    }
    add(many);
}

void
ModelClient::copy_in(const ModelEvents &many)
{
    std::string lines;
    for (const ModelEvent &one : many)
        lines += database_.type() + "\t" + one.key + "\t" + one.mark + "\t" +
                 (one.payload ? copy_text(*one.payload) : "\\N") + "\t" +
                 (one.headers.empty() ? "\\N" : copy_text(headers_json(one))) + "\t" +
                 one.version.value_or("\\N") + "\n";
    db_->copy_in(std::string("copy outbox.events ") + kColumns + " from stdin", lines);
}

// Events of a statement between those of a function that it calls, in subtransactions of its own
// but not in statements.
void
ModelClient::write_around_function()
{
    ModelEvents all;
    std::string rows;
    for (int i = below(8); i >= 0; --i)
    {
        const ModelEvent outer = event();
        const ModelEvent inner = event();
        const bool undone = below(3) == 0;
        rows += (rows.empty() ? "[[" : ", [") + json_of({outer}) + ", " + json_of({inner}) +
                (undone ? ", true]" : ", false]");
        all.push_back(outer);
        if (!undone)
            all.push_back(inner);
    }
    db_->exec("select outbox.emit($1, x#>>'{0,0,k}', x#>>'{0,0,t}', x#>'{0,0,p}', x#>'{0,0,h}', "
              "null, null, (x#>>'{0,0,v}')::int), "
              "public.emit_assigned($1, x#>'{1,0}', (x->>2)::boolean) "
              "from jsonb_array_elements($2::jsonb) x",
              database_.type(), rows + "]");
    add(all);
}

void
ModelClient::write_in_function()
{
    const ModelEvents first = events(5);
    switch (below(5))
    {
    case 0:
        db_->exec("select public.emit_each($1, $2)", database_.type(), json_of(first));
        add(first);
        break;
    case 1:
    {
        const ModelEvents after = events(5);
        db_->exec("select public.emit_but($1, $2, $3, $4)", database_.type(), json_of(first),
                  json_of(events(5)), json_of(after));
        add(first);
        add(after);
        break;
    }
    case 2:
        db_->exec("insert into public.outgoing select $1, jsonb_build_array(x) from "
                  "jsonb_array_elements($2::jsonb) x",
                  database_.type(), json_of(first));
        add(first);
        break;
    case 3:
        write_around_function();
        break;
    default:
    {
        db_->exec("insert into public.outgoing_later values ($1, $2)", database_.type(),
                  json_of(first));
        ModelEvents &later = levels_.back().deferred;
        later.insert(later.end(), first.begin(), first.end());
    }
    }
}

void
ModelClient::write_by_cursor()
{
    const ModelEvents many = events(12);
    const int fetched = below(static_cast<int>(many.size()) + 1);
    db_->exec("declare c no scroll cursor for select outbox.emit('" + database_.type() +
              "', x->>'k', x->>'t', x->'p', x->'h', null, null, (x->>'v')::int) from "
              "jsonb_array_elements($json$" +
              json_of(many) + "$json$::jsonb) x");
    if (fetched > 0)
        db_->exec("fetch " + std::to_string(fetched) + " from c");
    add({many.begin(), many.begin() + fetched});
    if (below(2) == 0)
        write_one();
    db_->exec("close c");
}

} // namespace outbox::test
