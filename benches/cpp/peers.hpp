// Small stand-ins for how others keep track of wrapped objects. They do what a tracker's user needs done,
// in the way of the original, and leave out everything else that it does.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef LOT_BENCHES_PEERS_HPP
#define LOT_BENCHES_PEERS_HPP

#include <mutex>
#include <set>
#include <unordered_map>

#include "llvm/ADT/DenseMap.h"

namespace bench {

/// No lock: what the bindings rely on when Python's global lock guards them.
struct NoMutex {
  void lock() {}
  void unlock() {}
};

/// The MLIR Python bindings up to LLVM 21: one map for a context, from the operation's address to its
/// wrapper. A wrapper that is not in the map any more carries a flag that says so. Which wrappers an erased
/// operation encloses is found by walking all of the IR below it and looking each operation up.
template <typename Mutex> class Llvm19 {
public:
  struct Wrapper {
    const void *operation;
    bool valid;
  };

  void insert(const void *operation, Wrapper *wrapper) {
    std::lock_guard<Mutex> guard(mutex);
    live[operation] = {wrapper, wrapper};
  }
  void erase(const void *operation) {
    std::lock_guard<Mutex> guard(mutex);
    live.erase(operation);
  }
  Wrapper *find(const void *operation) {
    std::lock_guard<Mutex> guard(mutex);
    auto found = live.find(operation);
    return found == live.end() ? nullptr : found->second.second;
  }
  /// For one operation of the walk.
  void invalidate(const void *operation) {
    std::lock_guard<Mutex> guard(mutex);
    auto found = live.find(operation);
    if (found == live.end())
      return;
    found->second.second->valid = false;
    live.erase(found);
  }
  std::size_t size() const { return live.size(); }

private:
  Mutex mutex;
  /// The Python object and the C++ wrapper in it.
  llvm::DenseMap<const void *, std::pair<void *, Wrapper *>> live;
};

/// Shiboken's: one map from address to wrapper for the process, a parent and a set of children in each
/// wrapper, all of it under one recursive mutex.
class Shiboken {
public:
  struct Wrapper {
    const void *object = nullptr;
    Wrapper *parent = nullptr;
    std::set<Wrapper *> children;
    bool valid = true;
  };

  Wrapper *insert(const void *object, Wrapper *parent) {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    auto *wrapper = new Wrapper;
    wrapper->object = object;
    wrapper->parent = parent;
    if (parent)
      parent->children.insert(wrapper);
    wrappers[object] = wrapper;
    return wrapper;
  }
  void release(Wrapper *wrapper) {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    if (wrapper->parent)
      wrapper->parent->children.erase(wrapper);
    wrappers.erase(wrapper->object);
    delete wrapper;
  }
  /// The object ends with all of its children; their wrappers remain, to say so.
  void invalidate(Wrapper *wrapper) {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    for (Wrapper *child : wrapper->children)
      invalidate(child);
    wrapper->children.clear();
    wrapper->valid = false;
    wrappers.erase(wrapper->object);
  }
  bool contains(const void *object) {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    return wrappers.count(object) != 0;
  }

private:
  std::recursive_mutex mutex;
  std::unordered_map<const void *, Wrapper *> wrappers;
};

} // namespace bench

#endif // LOT_BENCHES_PEERS_HPP
