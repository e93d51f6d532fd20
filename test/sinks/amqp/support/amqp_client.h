#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

struct amqp_connection_state_t_;

namespace outbox::test
{

// A message as a consumer gets it.
struct AmqpMessage
{
    std::string exchange;
    std::string routing_key;
    std::string body;
    std::string id;
    std::string type;
    std::string content_type;
    int delivery_mode = 0;
    std::uint64_t timestamp = 0;
    std::vector<std::pair<std::string, std::optional<std::string>>> headers;

    std::string header(const std::string &name) const;
};

// A client for tests, which throws when something is not done as asked.
class AmqpClient
{
public:
    explicit AmqpClient(int port, const std::string &user = "guest",
                        const std::string &password = "guest", const std::string &vhost = "/");
    ~AmqpClient();
    AmqpClient(const AmqpClient &) = delete;
    AmqpClient &operator=(const AmqpClient &) = delete;

    using Arguments = std::map<std::string, std::string>; // a value of digits is a number
    void declare_exchange(const std::string &name, const std::string &type = "topic",
                          const Arguments &arguments = {});
    void delete_exchange(const std::string &name);
    void declare_queue(const std::string &name, const Arguments &arguments = {});
    void delete_queue(const std::string &name);
    void bind(const std::string &queue, const std::string &exchange, const std::string &key = "#");
    // An exchange and a queue that gets all of it. Changes nothing that is there.
    void declare_bound(const std::string &queue, const std::string &exchange,
                       const std::string &type, const Arguments &queue_arguments = {});
    std::size_t count(const std::string &queue);
    void purge(const std::string &queue);
    // The first of the queue, if there is one; it is gone then.
    std::optional<AmqpMessage> get(const std::string &queue);
    std::vector<AmqpMessage> get_all(const std::string &queue);

    // For measurements: a bare publisher's connection.
    amqp_connection_state_t_ *state() const { return state_.get(); }

private:
    void check(const char *doing) const;

    struct Closer
    {
        void operator()(amqp_connection_state_t_ *state) const noexcept;
    };
    std::unique_ptr<amqp_connection_state_t_, Closer> state_;
};

} // namespace outbox::test
