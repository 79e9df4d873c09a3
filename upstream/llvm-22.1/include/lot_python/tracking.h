// What the patched bindings know of the tracker: one tracker, refs for operations, blocks and block
// arguments, the exception for a dead one, and the acts of the binding that end objects.
//
// The rule that the patch follows: a wrapper keeps a native pointer together with a ref, and asks the ref
// before it gives the pointer to MLIR.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef LOT_PYTHON_TRACKING_H
#define LOT_PYTHON_TRACKING_H

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include "llvm/ADT/StringMap.h"

#include "lot/lot.hpp"
#include "lot/mlir.h"
#include "lot_python/diagnostics.h"
#include "lot_python/gate.h"
#include "lot_python/observers.h"
#include "mlir-c/IR.h"

namespace lot_python {

// ---- The tracker. There is one, for the life of the process.

// It is in the library that all extension modules share, and so is the tracker's code: a module calls what
// is declared here with LOT_PYTHON_API, never a function of the tracker.

extern lot::Tracker tracker;

/// Whether every end is reported by the load hooks (R10). Otherwise the binding reports what it does, and
/// where an object is ("structural mode").
inline bool isExact() { return tracker.isExact(); }

/// Creates the tracker, installs the load hooks, and adds what Python sees of it to the module `ir`.
LOT_PYTHON_API void populate(nanobind::module_ &m);

/// Refuses to be loaded twice, before anything is changed. `isKnown`: nanobind knows the bindings' types
/// already, from another copy of them.
LOT_PYTHON_API void requireFirst(bool isKnown);

/// Covers libraries that were loaded since the last time. To be called before such a library may be at work
/// on IR of the bindings: when a context is made, when a capsule is handed out, and when a run begins. If
/// one cannot be covered, the bindings are in structural mode from then on.
LOT_PYTHON_API void refresh();
/// The change to structural mode: ends all refs but those to what Python owns, since nobody has noted where
/// the objects are.
void endUnplaced();

// ---- Refs.

struct Tracked {
  lot::Ref ref;
  void *user; // the wrapper that the object has, if any
};

/// The ref of an operation, and its wrapper if it has one.
Tracked trackOperation(MlirContext context, MlirOperation operation);
/// The same for an operation that was just made, and its wrapper: what else was tracked at its address has ended
/// unseen.
lot::Ref trackNewOperation(MlirContext context, MlirOperation operation, void *user);
lot::Ref trackBlock(MlirContext context, MlirBlock block);
lot::Ref trackBlockArgument(MlirContext context, MlirValue argument);

/// The binding has put an operation or block somewhere else, or has taken it out (structural mode).
void noteMoved(MlirOperation operation);
void noteMoved(MlirContext context, MlirBlock block);

// ---- Exceptions.

enum class Subject { Operation, Block, BlockArgument, Value };

/// Raises `DeadReferenceError` for a dead ref. `name`: the operation's, or that of the operation that the
/// block belonged to; the identifier is the context's, so it outlives the operation.
[[noreturn]] LOT_PYTHON_API void raiseDead(lot::Ref ref, Subject subject, MlirIdentifier name);
/// Raises `DeadReferenceError` with a text of one's own.
[[noreturn]] LOT_PYTHON_API void raiseInvalidated(const char *text);
/// Raises `ValueError`: the binding refuses what would end the process, or free what is in use.
[[noreturn]] LOT_PYTHON_API void refuse(const std::string &text);

/// How something ended, in words: "was erased", "ended when 'func.func' was erased".
std::string describeEnd(const lot_death &death);
/// What ended it, other than itself: "'func.func'", "PassManager.run on 'builtin.module'". None if that is not
/// known, or not any more.
std::optional<std::string> describeWhatEnded(const lot_death &death);

/// An operation's name in quotes, for such texts.
LOT_PYTHON_API std::string quotedName(MlirOperation operation);
LOT_PYTHON_API std::string quotedName(MlirIdentifier name);

// ---- What belongs to a context.

struct ContextState {
  /// Counts the moments at which operations may have ended or changed place. A symbol table that was made
  /// at another count looks again before it believes its own pointers.
  std::uint64_t changes = 0;
  /// Operations that lost their last owner in Python while something else still uses their results, or
  /// still is at work on them. Destroyed as soon as that is over.
  std::vector<MlirOperation> orphans;
  /// How many `AsmState`s there are. As long as there is one, an operation that loses its wrapper stays tracked.
  std::size_t numberings = 0;
  /// Null as long as nobody wants to be told of ended operations.
  std::shared_ptr<Observed> observed;
  /// Where diagnostics go; there as long as the context.
  std::shared_ptr<Diagnostics> diagnostics;
  /// See getIdentifier.
  llvm::StringMap<MlirIdentifier> identifiers;
};

/// The identifier of an attribute's name. MLIR's own search costs as much as making a wrapper.
MlirIdentifier getIdentifier(ContextState &state, MlirContext context, const std::string &name);

/// An attribute of an operation is set or removed. A symbol table has to look again when it was a symbol's name.
void noteAttribute(ContextState &state, const std::string &name);

/// How many roots there are in all contexts: operations that nothing encloses, such as modules. Whatever
/// Python owns is counted once, as long as it is one; nothing can use a part of a root from outside of it if
/// there is no other one. Guarded by the GIL.
LOT_PYTHON_API extern std::size_t rootCount;
/// There is a root that the bindings do not own, and do not hear the end of.
inline void noteForeignRoot() { ++rootCount; }
/// MLIR calls Python, and shows it operations.
LOT_PYTHON_API void noteShown() noexcept;

/// Destroys an operation that Python owns and nobody else holds; makes it an orphan if it is in use, and
/// then answers false. Called by destructors: nothing is thrown.
bool destroyOwned(ContextState &state, MlirOperation operation, lot::Ref ref, const char *what) noexcept;
/// Destroys the orphans that are not in use any more.
LOT_PYTHON_API void sweepOrphans(ContextState &state) noexcept;
/// Ends all that is tracked in a context which is about to be destroyed.
LOT_PYTHON_API void endContext(ContextState &state, MlirContext context) noexcept;

// ---- Acts of the binding that end objects.

/// While it lives, what ends on this thread ends because of this act.
class LOT_PYTHON_API Ending {
public:
  /// `what` completes "ended when 'func.func' ...", and has to be a literal.
  Ending(MlirOperation operation, lot::Ref ref, lot_cause cause, const char *what) noexcept;
  Ending(const Ending &) = delete;
  Ending &operator=(const Ending &) = delete;
  ~Ending();

private:
  lot::Attribution attribution;
  std::uint64_t record;
};

// ---- Checks before MLIR is asked to do something that it does not check itself.

/// An operation outside of `operation` that uses a value or a block of it; null if there is none. With
/// `results` false its own results may be in use.
LOT_PYTHON_API MlirOperation findOutsideUser(MlirOperation operation, bool results = true);

/// Takes operands away from what is inside of an operation that is about to be destroyed: MLIR insists that
/// its results have no uses then, not even such ones.
void dropInnerUses(MlirOperation operation);
/// Refuses to erase an operation that is in use outside of itself.
LOT_PYTHON_API void requireUnused(MlirOperation operation, bool results = true);
/// Refuses to put `operation` into a block that is inside of it.
LOT_PYTHON_API void requireNotInside(MlirOperation operation, MlirBlock block);

// ---- Capsules.

/// Makes a capsule of `owner` that can be told to be dead later, and that keeps `owner` alive.
LOT_PYTHON_API nanobind::object rememberCapsule(nanobind::object capsule, nanobind::object owner, lot::Ref ref = {});
/// Differs from the last time if code that got a capsule may have changed IR in between. (A capsule is all
/// that the bindings see of such code.)
std::uint64_t outsideChanges();
/// Raises if the object that the capsule was made of has ended. Nothing is known of capsules that others
/// made: they pass.
LOT_PYTHON_API void checkCapsule(nanobind::handle capsule);
/// For what has one owner: gives the owner that a capsule was made of, who then has to let go of it. A null
/// object for capsules that others made. Raises when that was done before. `check`, if given, may raise as well, and
/// then nothing has happened.
LOT_PYTHON_API nanobind::object takeCapsule(nanobind::handle capsule, void (*check)(nanobind::handle owner) = nullptr);

} // namespace lot_python

#endif // LOT_PYTHON_TRACKING_H
