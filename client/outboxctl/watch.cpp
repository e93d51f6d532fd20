#include "watch.h"

#include "errors.h"
#include "interrupts.h"
#include "standard_output.h"
#include "terminal.h"
#include "units.h"

#include <fmt/format.h>

#include <algorithm>

#include <poll.h>
#include <unistd.h>

namespace outbox::ctl
{

namespace
{

constexpr double kShortestInterval = 0.05;
constexpr double kLongestInterval = 3600;

std::string
short_time(const RelayView &view)
{
    // "2026-01-31T09:05:00.000123Z"
    return printable(view.json["time"].get<std::string>().substr(0, 19)) + "Z";
}

// What changed between two looks.
class Rate
{
public:
    std::optional<double> next(const RelayView &view)
    {
        const auto now = Clock::now();
        const double seconds = std::chrono::duration<double>(now - taken_).count();
        std::optional<double> rate;
        if (published_ && seconds > 0)
            rate = std::max(0.0, static_cast<double>(view.published_total - *published_) / seconds);
        published_ = view.published_total;
        taken_ = now;
        return rate;
    }
    void forget() { published_.reset(); }

private:
    std::optional<long long> published_;
    Clock::time_point taken_;
};

class Watch
{
public:
    Watch(const Context &context, Database &database, double interval)
        : context_(context), database_(database),
          interval_(
              static_cast<long>(1000 * std::clamp(interval, kShortestInterval, kLongestInterval)))
    {
        if (stdout_is_terminal() && !context.output.json())
            screen_ = std::make_unique<FullScreen>();
    }

    // Returns when the reader presses q, throws Interrupted for Ctrl-C.
    void go_on()
    {
        while (!done_)
        {
            look();
            wait();
        }
    }

private:
    void look()
    {
        try
        {
            if (lost_)
                database_.reconnect();
            show(look_at_relay(database_));
            if (lost_)
                report("connected again");
            lost_ = false;
        }
        catch (const ConnectionError &error)
        {
            lost_ = true;
            rate_.forget();
            report(std::string("no connection, trying again: ") + first_line(error.what()));
        }
    }

    static std::string first_line(const std::string &text)
    {
        return printable(text.substr(0, text.find('\n')));
    }

    void show(const RelayView &view)
    {
        const std::optional<double> rate = rate_.next(view);
        if (context_.output.json())
        {
            Json json = view.json;
            json["published_per_second"] = or_null(rate);
            context_.output.record(json);
            return;
        }
        if (!screen_)
        {
            context_.output.line(fmt::format(
                "{}  {}  backlog {}  in flight {}  published {}  failed {}{}", short_time(view),
                printable(view.state), view.backlog ? std::to_string(*view.backlog) : "?",
                view.in_flight_events, view.published_total, view.failed,
                view.last_error && view.failures > 0 ? "  " + printable(*view.last_error) : ""));
            flush_output();
            return;
        }
        lines_ = {
            context_.output.styled(printable(fmt::format("{} on {}  {}", database_.name(),
                                                         database_.place(), short_time(view))),
                                   Style::kBold),
            ""};
        for (std::string &line : describe(view, rate).lines(context_.output))
            lines_.push_back(std::move(line));
        draw("");
    }

    void draw(const std::string &trouble)
    {
        std::vector<std::string> all = lines_;
        all.emplace_back();
        all.push_back(trouble.empty() ? context_.output.styled("q or Ctrl-C ends", Style::kFaint)
                                      : context_.output.styled(trouble, Style::kBad));
        screen_->draw(all);
    }

    void report(const std::string &text)
    {
        if (screen_)
            draw(lost_ ? text : "");
        else if (text != told_)
            Output::remark(text);
        told_ = text;
    }

    void wait()
    {
        const auto deadline = Clock::now() + interval_;
        const int keyboard = screen_ && isatty(STDIN_FILENO) != 0 ? STDIN_FILENO : -1;
        for (;;)
        {
            switch (wait_for(keyboard, POLLIN, deadline))
            {
            case Woken::kTimeout:
                return;
            case Woken::kReady:
                if (quit_pressed())
                    return;
                break;
            case Woken::kResized:
                if (screen_)
                    return; // a look at once shows it in the new size
                break;
            case Woken::kStop:
                stop();
                return;
            }
        }
    }

    bool quit_pressed()
    {
        char key = 0;
        const ssize_t count = read(STDIN_FILENO, &key, 1);
        done_ = count <= 0 || key == 'q' || key == 'Q'; // the terminal is gone, or its reader is
        return done_;
    }

    void stop()
    {
        if (screen_)
            screen_->leave();
        stop_here();
        if (screen_)
            screen_->enter();
    }

    const Context &context_;
    Database &database_;
    Milliseconds interval_;
    std::unique_ptr<FullScreen> screen_;
    Rate rate_;
    std::vector<std::string> lines_;
    std::string told_;
    bool lost_ = false;
    bool done_ = false;
};

} // namespace

int
watch_status(const Context &context, Database &database, double interval)
{
    const Interrupts interrupts(Interrupts::Output::kWatched);
    try
    {
        Watch(context, database, interval).go_on();
    }
    catch (const Interrupted &)
    {
        // The way to end it.
    }
    return kOk;
}

} // namespace outbox::ctl
