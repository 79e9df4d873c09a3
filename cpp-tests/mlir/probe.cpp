// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stands for a binding that has an MLIR of its own. Linked in several ways, with the static MLIR in it.



#include "lot/mlir.hpp"

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT const void *probe_symbol() { return reinterpret_cast<const void *>(&probe_symbol); }

EXPORT bool probe_self_test(lot_tracker tracker, void *data) {
  return lot::mlir::selfTest(tracker, data);
}

namespace {
struct Tree {
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::Operation *root;
};
} // namespace

EXPORT void *probe_build(lot_tracker tracker, lot_ref *refs) {
  Tree *tree = new Tree;
  tree->context.allowUnregisteredDialects();
  mlir::OperationState outer(mlir::UnknownLoc::get(&tree->context), "probe.op");
  mlir::OperationState inner(mlir::UnknownLoc::get(&tree->context), "probe.op");
  mlir::Block *block = new mlir::Block();
  outer.addRegion()->push_back(block);
  tree->root = mlir::Operation::create(outer);
  block->push_back(mlir::Operation::create(inner));
  lot::Ref ref;
  lot::mlir::track(tracker, tree->root, ref).ignore();
  refs[0] = ref.raw();
  lot::mlir::track(tracker, &tree->context, block, ref).ignore();
  refs[1] = ref.raw();
  lot::mlir::track(tracker, &block->front(), ref).ignore();
  refs[2] = ref.raw();
  return tree;
}

EXPORT void probe_destroy(void *data) {
  Tree *tree = static_cast<Tree *>(data);
  tree->root->erase();
  delete tree;
}
