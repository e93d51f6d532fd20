// What the parts' figures look like: tables in Markdown, and pictures.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "bench/figures.h"
#include "gnuplot.h"

namespace outbox::bench
{

std::string drain_text(const Json &drain);
std::vector<Plot> draw_drain(const Json &drain, const std::filesystem::path &directory);

std::string latency_text(const Json &latency);
std::vector<Plot> draw_latency(const Json &latency, const std::filesystem::path &directory);

std::string write_text(const Json &write);

std::string application_text(const Json &application);
std::vector<Plot> draw_application(const Json &application, const std::filesystem::path &directory);

std::string idempotency_text(const Json &idempotency);

// All contenders' steady states look the same. Those that were measured are drawn together.
std::string steady_text(const Json &steady);
std::vector<Plot> draw_steady(const std::vector<Json> &contenders,
                              const std::filesystem::path &directory);

std::string growth_text(const Json &growth);
std::vector<Plot> draw_growth(const Json &growth, const std::filesystem::path &directory);

std::string tuning_text(const Json &tuning);

std::string profile_text(const Json &profile);

} // namespace outbox::bench
