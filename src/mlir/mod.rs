// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Where exact reports of MLIR come from.
