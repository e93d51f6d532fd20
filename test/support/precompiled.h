// What most tests include, for the compiler to read once; see PRECOMPILED in test/Makefile. Each
// file still includes what it uses. Nothing of ours belongs here: each change of it would compile
// every test again. "#pragma once" is a warning in a file that is compiled by itself.
#ifndef OUTBOX_TEST_PRECOMPILED_H
#define OUTBOX_TEST_PRECOMPILED_H

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

// What the demo and the benchmarks share with the tests is compiled where GoogleTest is missing,
// too.
#if __has_include(<gtest/gtest.h>)
#include <gtest/gtest.h>
#endif

#endif
