// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The exact source that a test program is about.
#ifndef LOT_CPP_TESTS_SOURCE_HPP
#define LOT_CPP_TESTS_SOURCE_HPP

#include <gtest/gtest.h>

#include "lot/mlir.hpp"

namespace source {

extern const lot_mlir_source kind;
lot_status install(lot::Tracker tracker, lot_mlir_self_test_fn selfTest = lot::mlir::selfTest);
lot_status uninstall(lot::Tracker tracker);

inline lot_mlir_status status(lot::Tracker tracker) {
  lot_mlir_status status = {};
  EXPECT_EQ(lot_mlir_get_status(tracker.raw(), &status), LOT_OK);
  return status;
}

} // namespace source

#endif
