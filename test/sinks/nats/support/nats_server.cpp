#include "nats_server.h"

#include "test/support/workspace.h"

#include <csignal>
#include <fstream>
#include <functional>
#include <nats/nats.h>
#include <stdexcept>

namespace outbox::test
{

namespace
{

void
check(natsStatus status, const std::string &what)
{
    if (status != NATS_OK)
        throw std::runtime_error(what + ": " + natsStatus_GetText(status));
}

struct Destroy
{
    void operator()(natsOptions *options) const { natsOptions_Destroy(options); }
    void operator()(natsConnection *connection) const { natsConnection_Destroy(connection); }
    void operator()(natsSubscription *subscription) const
    {
        natsSubscription_Destroy(subscription);
    }
    void operator()(jsCtx *context) const { jsCtx_Destroy(context); }
    void operator()(natsMsg *message) const { natsMsg_Destroy(message); }
    void operator()(jsStreamInfo *info) const { jsStreamInfo_Destroy(info); }
};
template <typename T> using Owned = std::unique_ptr<T, Destroy>;

struct Session
{
    Owned<natsConnection> connection;
    Owned<jsCtx> context;
};

Session
open_session(const std::string &url, const std::string &user, const std::string &password)
{
    natsOptions *options = nullptr;
    check(natsOptions_Create(&options), "options");
    const Owned<natsOptions> owned(options);
    (void) natsOptions_SetURL(options, url.c_str());
    (void) natsOptions_SetAllowReconnect(options, false);
    if (!user.empty())
        (void) natsOptions_SetUserInfo(options, user.c_str(), password.c_str());
    natsConnection *connection = nullptr;
    check(natsConnection_Connect(&connection, options), "cannot connect to NATS");
    Session session;
    session.connection.reset(connection);
    jsCtx *context = nullptr;
    check(natsConnection_JetStream(&context, connection, nullptr), "no context of JetStream");
    session.context.reset(context);
    return session;
}

NatsMessage
to_message(natsMsg *message)
{
    NatsMessage result;
    result.subject = natsMsg_GetSubject(message);
    result.value.assign(natsMsg_GetData(message),
                        static_cast<size_t>(natsMsg_GetDataLength(message)));
    jsMsgMetaData *meta = nullptr;
    if (natsMsg_GetMetaData(&meta, message) == NATS_OK)
        result.sequence = meta->Sequence.Stream;
    jsMsgMetaData_Destroy(meta);
    const char **keys = nullptr;
    int count = 0;
    if (natsMsgHeader_Keys(message, &keys, &count) == NATS_OK)
        for (int i = 0; i < count; i++)
        {
            const char *value = nullptr;
            if (natsMsgHeader_Get(message, keys[i], &value) == NATS_OK)
                result.headers[keys[i]] = value;
        }
    free(static_cast<void *>(keys));
    return result;
}

void
with_config(const NatsStream &stream, const std::function<void(jsStreamConfig &)> &use)
{
    jsStreamConfig config;
    (void) jsStreamConfig_Init(&config);
    std::vector<const char *> subjects;
    for (const std::string &subject : stream.subjects)
        subjects.push_back(subject.c_str());
    config.Name = stream.name.c_str();
    config.Subjects = subjects.data();
    config.SubjectsLen = static_cast<int>(subjects.size());
    config.MaxMsgs = stream.max_messages;
    config.MaxMsgSize = stream.max_message_size;
    config.Discard = stream.discard_new ? js_DiscardNew : js_DiscardOld;
    config.Duplicates = stream.duplicates_ns;
    use(config);
}

} // namespace

NatsServer::NatsServer(std::string config, bool jetstream)
    : port_(free_port()), directory_(run_dir() / unique_name("nats")), log_(new_log("nats")),
      config_(std::move(config)), jetstream_(jetstream)
{
    std::filesystem::create_directories(directory_);
    write_config();
}

NatsServer::~NatsServer() = default;

std::string
NatsServer::url() const
{
    return "nats://127.0.0.1:" + std::to_string(port_);
}

void
NatsServer::write_config()
{
    std::ofstream file(directory_ / "server.conf");
    file << "host: 127.0.0.1\nport: " << port_ << "\n";
    if (jetstream_)
        file << "jetstream { store_dir: \"" << (directory_ / "store").string()
             << "\", max_mem: 64MB, max_file: 1GB }\n";
    file << config_ << "\n";
}

void
NatsServer::start()
{
    Command command({"nats-server", "-c", (directory_ / "server.conf").string()});
    command.output = log_.string();
    process_ = std::make_unique<Process>(command);
    const bool up =
        wait_until(std::chrono::seconds(30),
                   [&]
                   {
                       natsConnection *connection = nullptr;
                       natsOptions *options = nullptr;
                       (void) natsOptions_Create(&options);
                       (void) natsOptions_SetURL(options, url().c_str());
                       (void) natsOptions_SetAllowReconnect(options, false);
                       const natsStatus status = natsConnection_Connect(&connection, options);
                       natsConnection_Destroy(connection);
                       natsOptions_Destroy(options);
                       return status == NATS_OK || status == NATS_CONNECTION_AUTH_FAILED ||
                              status == NATS_SSL_ERROR;
                   });
    if (!up)
        throw std::runtime_error("nats-server does not answer: " + read_file(log_));
}

void
NatsServer::stop()
{
    (void) process_->stop(SIGTERM, std::chrono::seconds(10));
    process_.reset();
}

void
NatsServer::kill9()
{
    process_->kill9();
    process_.reset();
}

void
NatsServer::configure(const std::string &config, bool jetstream)
{
    config_ = config;
    jetstream_ = jetstream;
    write_config();
    if (process_ != nullptr)
        process_->signal(SIGHUP);
}

void
NatsServer::set_user(const std::string &user, const std::string &password)
{
    user_ = user;
    password_ = password;
}

void
NatsServer::add_stream(const NatsStream &stream)
{
    const Session session = open_session(url(), user_, password_);
    with_config(stream,
                [&](jsStreamConfig &config)
                {
                    check(js_AddStream(nullptr, session.context.get(), &config, nullptr, nullptr),
                          "cannot add the stream " + stream.name);
                });
}

void
NatsServer::change_stream(const NatsStream &stream)
{
    const Session session = open_session(url(), user_, password_);
    with_config(stream,
                [&](jsStreamConfig &config)
                {
                    check(
                        js_UpdateStream(nullptr, session.context.get(), &config, nullptr, nullptr),
                        "cannot change the stream " + stream.name);
                });
}

void
NatsServer::delete_stream(const std::string &name)
{
    const Session session = open_session(url(), user_, password_);
    check(js_DeleteStream(session.context.get(), name.c_str(), nullptr, nullptr), "delete");
}

void
NatsServer::purge_stream(const std::string &name)
{
    const Session session = open_session(url(), user_, password_);
    check(js_PurgeStream(session.context.get(), name.c_str(), nullptr, nullptr), "purge");
}

std::uint64_t
NatsServer::count(const std::string &stream)
{
    const Session session = open_session(url(), user_, password_);
    jsStreamInfo *info = nullptr;
    check(js_GetStreamInfo(&info, session.context.get(), stream.c_str(), nullptr, nullptr),
          "no stream " + stream);
    const Owned<jsStreamInfo> owned(info);
    return info->State.Msgs;
}

std::vector<NatsMessage>
NatsServer::messages(const std::string &stream)
{
    std::vector<NatsMessage> result;
    const std::uint64_t expected = count(stream);
    if (expected == 0)
        return result;
    const Session session = open_session(url(), user_, password_);
    jsSubOptions options;
    (void) jsSubOptions_Init(&options);
    options.Ordered = true;
    options.Stream = stream.c_str();
    natsSubscription *subscription = nullptr;
    check(js_SubscribeSync(&subscription, session.context.get(), ">", nullptr, &options, nullptr),
          "cannot read the stream " + stream);
    const Owned<natsSubscription> owned(subscription);
    while (result.size() < expected)
    {
        natsMsg *message = nullptr;
        check(natsSubscription_NextMsg(&message, subscription, 10000),
              "message " + std::to_string(result.size()) + " of " + std::to_string(expected));
        const Owned<natsMsg> held(message);
        result.push_back(to_message(message));
    }
    return result;
}

} // namespace outbox::test
