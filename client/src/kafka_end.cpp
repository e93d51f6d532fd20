#include "kafka_end.h"

#include "detached_thread.h"

#include <utility>

namespace outbox::v0::detail
{

struct KafkaEnd::Task
{
    std::shared_ptr<void> used;
    rd_kafka_t *client = nullptr;
    int flags = 0;
    std::promise<void> done;
    std::shared_ptr<Task> self; // from the beginning of the end until the client is gone

    void run()
    {
        rd_kafka_destroy_flags(client, flags);
        used.reset();
        const std::shared_ptr<Task> last = std::move(self);
        done.set_value();
    }
};

void
KafkaEnd::leave_behind() noexcept
{
    task_->self = task_;
}

KafkaEnd::KafkaEnd(std::shared_ptr<void> used) : task_(std::make_shared<Task>())
{
    task_->used = std::move(used);
    done_ = task_->done.get_future();
}

bool
KafkaEnd::destroy(rd_kafka_t *client, int flags, std::chrono::milliseconds limit) noexcept
try
{
    task_->client = client;
    task_->flags = flags;
    leave_behind(); // until the thread has come to its end
    start_detached([task = task_.get()] { task->run(); });
    return done_.wait_for(limit) == std::future_status::ready;
}
catch (const std::exception &) // no thread: said by who called
{
    return false;
}

} // namespace outbox::v0::detail
