// A name that is looked up in a thread of its own.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <string>

#include <netdb.h>
#include <unistd.h>

#include "event_fd.h"
#include "stop_flag.h"

namespace outbox::v0::detail
{

// getaddrinfo() takes as long as the name service lets it. So it is called in a thread, which is
// left to itself when it takes too long; whoever asks for the same name again waits for the same
// thread, so that a process never has more of them than names. They may outlive everything else,
// main() included, and use nothing but their own NameLookup.
class NameLookup
{
public:
    using Clock = std::chrono::steady_clock;

    struct Answer
    {
        int error = 0; // of getaddrinfo()
        int system_error = 0;
        std::shared_ptr<addrinfo> list; // none with an error
        Clock::time_point time;
    };

    // The look-up of this name that is under way, or one that has succeeded just now and whose
    // answer nobody has taken, or a new one. Numeric addresses have their answer at once. Throws
    // SystemError.
    static std::shared_ptr<NameLookup> of(const std::string &host, const std::string &service,
                                          const addrinfo &hints);

    // Waits for the answer. False: there is none before the deadline, or `stop`, if any, is raised.
    bool wait(Clock::time_point deadline, const StopFlag *stop) const;
    // Once there is one. Who asks for the name after that gets a new look-up. Throws
    // std::bad_alloc.
    Answer take();

    NameLookup() = default; // for of()

private:
    struct Table;

    static Table &table();
    bool ended() const;
    void answer_with(Answer answer);
    bool may_be_joined() const;

    const pid_t process_ = getpid();
    std::promise<Answer> promise_;
    const std::shared_future<Answer> answer_ = promise_.get_future().share();
    const EventFd ended_;
};

} // namespace outbox::v0::detail
