#include "webhook_subscription_scene.h"

#include <sstream>
#include <stdexcept>

#include "support/tree.h"

namespace outbox::test
{

Endpoint::Endpoint(Answer answer) : answer_(std::move(answer)), port_(free_port())
{
    start();
}

void
Endpoint::start()
{
    server_ = std::make_unique<HttpServer>([this](const HttpRequest &request)
                                           { return this->answer(request); },
                                           HttpServer::Tls(), port_);
}

void
Endpoint::answer_with(Answer answer)
{
    const std::lock_guard<std::mutex> lock(mutex_);
    answer_ = std::move(answer);
}

HttpReply
Endpoint::answer(const HttpRequest &request)
{
    Answer answer;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        answer = answer_;
    }
    requests_++;
    const HttpReply reply = answer ? answer(request) : HttpReply::status(204);
    const std::string begin = reply.pieces.empty() ? "" : reply.pieces.front().substr(0, 10);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (begin == "HTTP/1.1 2")
        taken_.push_back({request.header("webhook-id"),
                          kTopicPrefix + request.header("outbox-aggregate-type"), 0,
                          static_cast<int64_t>(taken_.size()),
                          request.header("outbox-aggregate-id"), request.body});
    return reply;
}

std::vector<Delivery>
Endpoint::taken() const
{
    const std::lock_guard<std::mutex> lock(mutex_);
    return taken_;
}

std::set<std::string>
Endpoint::ids() const
{
    const std::lock_guard<std::mutex> lock(mutex_);
    std::set<std::string> ids;
    for (const Delivery &one : taken_)
        ids.insert(one.id);
    return ids;
}

std::string
file_for_server(const std::string &content)
{
    const auto path = run_dir() / unique_name("file-");
    write_file(path, content);
    give_to_server_user(path);
    return path.string();
}

WebhookScene::WebhookScene(PgCluster &cluster)
    : server(cluster), database(cluster), db(database.connect()),
      secret_file(file_for_server(std::string(kWebhookSecret) + "\n"))
{
    kafka().create_topic(database.topic());
}

void
WebhookScene::subscribe(const std::string &url, const std::string &more)
{
    db.exec("select outbox.create_subscription('hook', 'webhook', jsonb_build_object("
            "'url', $1::text, 'secret_file', $2::text, 'backoff_initial', '50ms', "
            "'backoff_max', '400ms'" +
                (more.empty() ? "" : ", " + more) + "))",
            url, secret_file);
}

std::string
WebhookScene::emit(const std::string &key, const std::string &payload, const std::string &event)
{
    return db.value("select outbox.emit($1, $2, $3, $4::jsonb)", database.type(), key, event,
                    payload);
}

std::string
WebhookScene::status(const std::string &column) const
{
    return db.value("select coalesce(" + column +
                    "::text, '') from outbox.subscription_status where name = 'hook'");
}

bool
WebhookScene::reaches(const std::string &column, const std::string &value) const
{
    return wait_until(kWebhookLimit, [&] { return status(column) == value; });
}

bool
WebhookScene::arrives(const Endpoint &endpoint, Milliseconds limit) const
{
    const auto ids = db.column("select id from outbox.events");
    return wait_until(limit,
                      [&]
                      {
                          const auto taken = endpoint.ids();
                          return std::all_of(ids.begin(), ids.end(),
                                             [&](const std::string &id)
                                             { return taken.count(id) > 0; });
                      });
}

void
WebhookScene::kill_relay() const
{
    const std::string pid = status("pid");
    if (!pid.empty() && pid != "0")
        database.kill_process(std::stoi(pid));
}

std::string
WebhookScene::describe() const
{
    return db.value("select coalesce((select string_agg(s::text, E'\\n') from "
                    "outbox.subscription_status s), '') || E'\\n' || coalesce((select "
                    "string_agg(d::text, E'\\n') from (select * from outbox.deliveries limit 5) "
                    "d), '')");
}

ReceiverProgram::ReceiverProgram(const std::vector<std::string> &words,
                                 const std::map<std::string, std::string> &environment,
                                 const std::string &scheme)
    : log_((run_dir() / unique_name("receiver-")).string())
{
    Command command(words);
    command.output = log_;
    command.environment = environment;
    process_ = std::make_unique<Process>(command);
    const std::string begin = "listening on ";
    if (!wait_until(std::chrono::seconds(30), [&] { return !lines("listening").empty(); }))
        throw std::runtime_error("the receiver does not listen:\n" + output());
    url_ = scheme + "://localhost:" + lines("listening")[0].substr(begin.size()) + "/hook";
}

std::string
ReceiverProgram::output() const
{
    return read_file(log_);
}

std::vector<std::string>
ReceiverProgram::lines(const std::string &word) const
{
    std::istringstream all(output());
    std::vector<std::string> found;
    for (std::string line; std::getline(all, line);)
        if (line.substr(0, word.size()) == word && !all.eof())
            found.push_back(line);
    return found;
}

std::string
webhook_libraries(const std::string &language)
{
    std::string dir =
        run_or_throw(Command({in_source("scripts/fetch-webhook-libraries"), language}),
                     std::chrono::seconds(300));
    while (!dir.empty() && dir.back() == '\n')
        dir.pop_back();
    return dir.substr(dir.rfind('\n') + 1);
}

} // namespace outbox::test
