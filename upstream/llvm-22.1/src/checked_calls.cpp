// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#define LOT_PYTHON_UNCHECKED_CALLS
#include "lot_python/checked_calls.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <dlfcn.h>

#include "llvm-c/Core.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "lot_python/slots.h"
#include "mlir-c/Dialect/Transform/Interpreter.h"
#include "lot_python/checked_transform.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Pass.h"
#include "mlir/CAPI/Support.h"
#include "mlir/IR/BuiltinAttributeInterfaces.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/Visitors.h"

namespace nb = nanobind;

namespace lot_python {

namespace {

std::string textOf(MlirStringRef text) { return std::string(text.data, text.length); }

MlirStringCallback appendTo(std::string &) {
  return [](MlirStringRef part, void *text) { static_cast<std::string *>(text)->append(part.data, part.length); };
}

template <typename Printed, typename Function> std::string print(Function function, Printed object) {
  std::string text;
  function(object, appendTo(text), &text);
  return text;
}

std::string quoted(MlirType type) { return "'" + print(mlirTypePrint, type) + "'"; }
std::string quoted(MlirAttribute attribute) { return "'" + print(mlirAttributePrint, attribute) + "'"; }

bool isNumber(MlirType type) { return mlirTypeIsAInteger(type) || mlirTypeIsAFloat(type); }

[[noreturn]] void refuseIndex(const char *what) { throw nb::index_error(what); }

void requireIndex(std::intptr_t index, std::intptr_t count, const char *what) {
  if (index < 0 || index >= count)
    refuseIndex(what);
}

/// Keeps the text of the errors that a call reports, instead of printing it.
class CaughtErrors {
public:
  explicit CaughtErrors(MlirContext context) : context(context) {
    id = mlirContextAttachDiagnosticHandler(
        context,
        [](MlirDiagnostic diagnostic, void *self) {
          if (mlirDiagnosticGetSeverity(diagnostic) != MlirDiagnosticError)
            return mlirLogicalResultFailure();
          std::string &text = static_cast<CaughtErrors *>(self)->text;
          if (!text.empty())
            text += "; ";
          mlirDiagnosticPrint(diagnostic, appendTo(text), &text);
          return mlirLogicalResultSuccess();
        },
        this, nullptr);
  }
  CaughtErrors(const CaughtErrors &) = delete;
  CaughtErrors &operator=(const CaughtErrors &) = delete;
  ~CaughtErrors() { mlirContextDetachDiagnosticHandler(context, id); }

  std::string text;

private:
  MlirContext context;
  MlirDiagnosticHandlerID id;
};

/// Makes a type by MLIR's checking variant, and raises what that reports.
template <typename Make> MlirType makeType(MlirContext context, Make &&make) {
  MlirType type;
  std::string error;
  {
    CaughtErrors errors(context);
    type = make(mlirLocationUnknownGet(context));
    error = errors.text;
  }
  if (mlirTypeIsNull(type))
    refuse("There is no such type: " + (error.empty() ? "invalid parameters" : error) + ".");
  return type;
}

/// A type or attribute of a dialect that is not loaded ends the process. Loads it.
void requireDialect(MlirContext context, const char *name) {
  if (mlirDialectIsNull(mlirContextGetOrLoadDialect(context, mlirStringRefCreateFromCString(name))))
    refuse(std::string("The dialect '") + name + "' is not registered in this context: append a dialect registry with it.");
}

/// What the bindings' opaque types and attributes need: a name that could be a dialect's, and is one unless the
/// context allows any.
void requireNamespace(MlirContext context, MlirStringRef name) {
  if (!mlir::Dialect::isValidNamespace(unwrap(name)))
    refuse("'" + textOf(name) + "' cannot be the name of a dialect.");
  if (!mlirContextGetAllowUnregisteredDialects(context) && mlirDialectIsNull(mlirContextGetOrLoadDialect(context, name)))
    refuse("'" + textOf(name) + "' is no dialect of this context: register it, or set allow_unregistered_dialects.");
}

} // namespace

void raiseMixedContexts() {
  refuse("Objects of two contexts cannot be used together. Make all of them in one context; printing and parsing brings "
         "IR, types and attributes from one to another.");
}

// ---- Trees.

namespace {

/// An operation that uses a value which is defined nowhere, below `root`; or null.
MlirOperation findUnplacedUse(MlirOperation root) {
  struct Search {
    MlirOperation root, found;
  } search = {root, {nullptr}};
  mlirOperationWalk(
      root,
      [](MlirOperation operation, void *data) {
        auto *search = static_cast<Search *>(data);
        if (operation.ptr == search->root.ptr)
          return MlirWalkResultAdvance; // its own operands are not looked at by MLIR
        for (std::intptr_t i = 0, e = mlirOperationGetNumOperands(operation); i < e; ++i) {
          MlirValue operand = mlirOperationGetOperand(operation, i);
          if (mlirValueIsNull(operand) || !mlirValueIsAOpResult(operand))
            continue;
          if (mlirBlockIsNull(mlirOperationGetBlock(mlirOpResultGetOwner(operand)))) {
            search->found = operation;
            return MlirWalkResultInterrupt;
          }
        }
        return MlirWalkResultAdvance;
      },
      &search, MlirWalkPreOrder);
  return search.found;
}

MlirOperation rootOf(MlirOperation operation) {
  for (MlirOperation outer = operation; !mlirOperationIsNull(outer); outer = mlirOperationGetParentOperation(outer))
    operation = outer;
  return operation;
}

} // namespace

/// Why the verifier of an operation would end the process, or null. These are faults of MLIR 22.1.8's verifiers, found
/// by tests/python/evil_operations.py.
static const char *faultOfVerifier(mlir::Operation *operation) {
  if (operation->getNumSuccessors() != 0 && !operation->getBlock())
    return "it has successors and is in no block";
  for (mlir::Block *successor : operation->getSuccessors())
    if (!successor)
      return "a block that it branches to has gone";
  llvm::StringRef dialect = operation->getName().getDialectNamespace();
  llvm::StringRef name = operation->getName().getStringRef();
  if (dialect == "linalg" && operation->getNumRegions() == 1 && operation->getNumOperands() == 0)
    return "it has no operands";
  if (name == "omp.teams" && !operation->getParentOp())
    return "it is in no operation";
  if (name == "omp.canonical_loop" && operation->getNumRegions() != 0 && operation->getRegion(0).empty())
    return "its region has no block";
  if (name == "ub.poison" && !operation->getInherentAttr("value").value_or(nullptr))
    return "its value is no poison"; // the verifier accepts that, and printing does not
  return nullptr;
}

/// An operation below `root`, or it itself, that its verifier cannot look at; or null.
static MlirOperation findFaulty(MlirOperation root) {
  MlirOperation found = {nullptr};
  unwrap(root)->walk<mlir::WalkOrder::PreOrder>([&](mlir::Operation *operation) {
    if (!faultOfVerifier(operation))
      return mlir::WalkResult::advance();
    found = wrap(operation);
    return mlir::WalkResult::interrupt();
  });
  return found;
}

bool isVerifiable(MlirOperation operation) {
  // Without a second root there is no operation that is in no block.
  return (rootCount <= 1 || mlirOperationIsNull(findUnplacedUse(rootOf(operation)))) &&
         mlirOperationIsNull(findFaulty(operation));
}

void requireVerifiable(MlirOperation operation, const char *act) {
  MlirOperation faulty = findFaulty(operation);
  if (!mlirOperationIsNull(faulty))
    refuse(quotedName(operation) + " cannot be " + act + ": " + quotedName(faulty) + " is not valid, since " +
           faultOfVerifier(unwrap(faulty)) + ".");
  if (rootCount <= 1)
    return;
  MlirOperation user = findUnplacedUse(rootOf(operation));
  if (!mlirOperationIsNull(user))
    refuse(quotedName(operation) + " cannot be " + act + ": inside of it or beside it, " + quotedName(user) +
           " uses a result of an operation that is in no block. Insert that operation, or replace its uses, first.");
}

/// Whether a text of the verifier is about what an operation is made of. MLIR's code relies on that everywhere, while
/// what the verifiers of single operations find otherwise, such as a module's attribute without a dialect's prefix,
/// is no danger as a rule.
static bool concernsMake(llvm::StringRef text) {
  for (const char *part :
       {"requires attribute", "requires the same ", "failed to satisfy constraint", "failed to verify constraint", "requires zero ",
        "requires one ", "requires a single ", "requires at least ", "operand #", "operand count", "operand group",
        "result #", "result group", "region #", "successor", "non-empty block", "at least one block", "regions to end with"})
    if (text.contains(part))
      return true;
  auto [_, number] = text.split("expected "); // "expected 2 operands, but found 1"
  return !number.empty() && std::isdigit(number.front());
}

/// What a part of an operation's verifier has against its make, or an empty text. `isValid`: it has nothing at all.
template <typename Verify> std::string faultOf(mlir::Operation *operation, bool &isValid, Verify &&verify) {
  CaughtErrors errors(wrap(operation->getContext()));
  isValid = mlir::succeeded(verify());
  return isValid || !concernsMake(errors.text) ? std::string() : std::move(errors.text);
}

/// What is wrong with an operation's place in its block and with the blocks it leads to, in words, or an empty text. MLIR
/// looks for branches at the end of a block only, and forgets those from elsewhere when it erases a block.
static std::string faultOfPlace(mlir::Operation *operation) {
  if (mlir::Operation *previous = operation->getBlock() ? operation->getPrevNode() : nullptr;
      previous && previous->getNumSuccessors() != 0)
    return "operation with block successors must terminate its parent block";
  for (mlir::Block *successor : operation->getSuccessors())
    if (successor->getParent() != operation->getParentRegion())
      return "branching to block of a different region";
  return {};
}

/// What is wrong with an operation apart from its regions, or an empty text.
static std::string faultOfItself(mlir::Operation *operation, bool &isValid) {
  std::string fault;
  bool isWhole = true;
  if (const char *text = faultOfVerifier(operation))
    fault = text;
  else if (!llvm::all_of(operation->getOperands(), [](mlir::Value operand) { return static_cast<bool>(operand); }))
    fault = "null operand found";
  else
    fault = faultOfPlace(operation);
  if (!fault.empty())
    return quotedName(wrap(operation)) + ": " + fault;
  if (auto kind = operation->getRegisteredInfo())
    fault = faultOf(operation, isWhole, [&] { return kind->verifyInvariants(operation); });
  isValid = isValid && isWhole;
  return fault;
}

/// A block of the operation that has no terminator, in words, or an empty text.
static std::string faultOfBlocks(mlir::Operation *operation, Use use) {
  auto kind = operation->getRegisteredInfo();
  for (mlir::Region &region : operation->getRegions()) {
    if (region.hasOneBlock() && (use == Use::Driver || !kind || kind->hasTrait<mlir::OpTrait::NoTerminator>() ||
                                 (use == Use::Passes && region.front().empty())))
      continue; // nobody looks for a terminator
    for (mlir::Block &block : region)
      if (block.empty())
        return "empty block: expect at least a terminator";
      else if (!block.back().mightHaveTrait<mlir::OpTrait::IsTerminator>())
        return "block with no terminator";
  }
  return {};
}

bool isValid(MlirOperation operation) {
  CaughtErrors errors(mlirOperationGetContext(operation));
  return isVerifiable(operation) && ::mlirOperationVerify(operation);
}

/// What the verifier says of values that do not dominate their uses, or an empty text. Everything is made as it has to be,
/// but the verifier may have stopped at an operation that is invalid in another way.
static std::string findUndominated(mlir::Operation *root) {
  std::string text;
  {
    CaughtErrors errors(wrap(root->getContext()));
    if (::mlirOperationVerify(wrap(root)))
      return {};
    text = std::move(errors.text);
  }
  if (llvm::StringRef(text).contains("does not dominate"))
    return text;
  for (mlir::Region &region : root->getRegions())
    for (mlir::Operation &inner : region.getOps())
      if (inner.getNumRegions() != 0)
        if (text = findUndominated(&inner); !text.empty())
          return text;
  return {};
}

std::string findFault(MlirOperation root, Use use, bool tell) {
  if (isValid(root))
    return {};
  if (!isVerifiable(root))
    return "MLIR's verifier cannot look at it";
  // In the order of MLIR's verifier, since what comes later relies on what was before.
  std::string fault;
  bool allValid = true; // not even invalid in a way that is no danger
  unwrap(root)->walk([&](mlir::Operation *operation, const mlir::WalkStage &stage) {
    auto kind = operation->getRegisteredInfo();
    bool isValid = true;
    if (stage.isBeforeAllRegions()) {
      fault = faultOfItself(operation, isValid);
      if (fault.empty())
        fault = faultOfBlocks(operation, use);
      allValid = allValid && isValid;
    }
    if (stage.isAfterAllRegions() && fault.empty() && kind && allValid)
      fault = faultOf(operation, isValid, [&] { return kind->verifyRegionInvariants(operation); });
    if (fault.empty())
      return mlir::WalkResult::advance();
    if (tell)
      mlir::emitError(operation->getLoc()) << fault;
    return mlir::WalkResult::interrupt();
  });
  if (fault.empty()) {
    fault = findUndominated(unwrap(root));
    if (tell && !fault.empty())
      mlir::emitError(unwrap(root)->getLoc()) << fault;
  }
  return fault;
}

namespace {

/// Looks at what was changed, as the verifier would. What is around it was sound before.
class EditsCheck {
public:
  std::string run(mlir::Operation *operation, Edit edit) {
    bool inside = (edit & Edit::Inside) == Edit::Inside;
    if (inside)
      operation->walk<mlir::WalkOrder::PreOrder>([&](mlir::Operation *inner) {
        look(inner, /*regions=*/true);
        return fault.empty() ? mlir::WalkResult::advance() : mlir::WalkResult::interrupt();
      });
    else
      look(operation, (edit & Edit::Regions) == Edit::Regions);
    if ((edit & Edit::Users) == Edit::Users)
      for (mlir::Operation *user : operation->getUsers())
        look(user, /*regions=*/false);
    if ((edit & Edit::Arguments) == Edit::Arguments)
      for (mlir::Region &region : operation->getRegions())
        for (mlir::Block &block : region)
          for (mlir::BlockArgument argument : block.getArguments())
            for (mlir::Operation *user : argument.getUsers())
              look(user, /*regions=*/false);
    return std::move(fault);
  }

private:
  void look(mlir::Operation *operation, bool regions) {
    if (!fault.empty())
      return;
    bool isValid = true;
    fault = faultOfItself(operation, isValid);
    if (fault.empty() && regions) {
      fault = faultOfBlocks(operation, Use::Driver);
      // What its regions' verifier relies on. A symbol table looks at all that is in it, and no driver needs what it finds.
      for (mlir::Region &region : operation->getRegions())
        for (mlir::Block &block : region)
          if (fault.empty() && !block.empty())
            fault = faultOfItself(&block.back(), isValid);
      auto kind = operation->getRegisteredInfo();
      if (fault.empty() && kind && isValid && !kind->hasTrait<mlir::OpTrait::SymbolTable>())
        fault = faultOf(operation, isValid, [&] { return kind->verifyRegionInvariants(operation); });
    }
    if (fault.empty() && operation->getBlock() && dominance.isReachableFromEntry(operation->getBlock()) &&
        !llvm::all_of(operation->getOperands(),
                      [&](mlir::Value operand) { return dominance.properlyDominates(operand, operation); }))
      fault = quotedName(wrap(operation)) + ": an operand does not dominate this use";
  }

  mlir::DominanceInfo dominance; // made for a region when it is asked for one
  std::string fault;
};

} // namespace

std::string findFault(const Edits &edits) {
  EditsCheck check;
  for (auto [operation, edit] : edits)
    if (std::string fault = check.run(static_cast<mlir::Operation *>(operation), edit); !fault.empty())
      return fault;
  return {};
}

void requireUsesInside(MlirOperation operation, const char *act) {
  struct Search {
    MlirOperation root, found;
  } search = {operation, {nullptr}};
  mlirOperationWalk(
      operation,
      [](MlirOperation inner, void *data) {
        auto *search = static_cast<Search *>(data);
        bool outside = false;
        for (std::intptr_t i = 0, e = mlirOperationGetNumOperands(inner); i < e && !outside; ++i) {
          MlirValue operand = mlirOperationGetOperand(inner, i);
          if (mlirValueIsNull(operand))
            continue;
          MlirOperation home = mlirValueIsABlockArgument(operand)
                                   ? mlirBlockGetParentOperation(mlirBlockArgumentGetOwner(operand))
                                   : mlirOpResultGetOwner(operand);
          outside = !encloses(search->root, home);
        }
        for (std::intptr_t i = 0, e = mlirOperationGetNumSuccessors(inner); i < e && !outside; ++i)
          outside = inner.ptr == search->root.ptr ||
                    !encloses(search->root, mlirBlockGetParentOperation(mlirOperationGetSuccessor(inner, i)));
        if (!outside)
          return MlirWalkResultAdvance;
        search->found = inner;
        return MlirWalkResultInterrupt;
      },
      &search, MlirWalkPreOrder);
  if (!mlirOperationIsNull(search.found))
    refuse(quotedName(operation) + " cannot be " + act + " alone: " + quotedName(search.found) +
           " uses a value or a block from outside of it. Take an operation that encloses that too.");
}

void requireCreatable(MlirContext context, MlirStringRef name, std::intptr_t regions, std::intptr_t successors) {
  constexpr std::intptr_t kMostRegions = (1 << 23) - 1; // an operation has 23 bits for their number
  if (regions > kMostRegions)
    refuse("An operation can have at most " + std::to_string(kMostRegions) + " regions.");
  if (successors == 0)
    return;
  auto kind = mlir::RegisteredOperationName::lookup(unwrap(name), unwrap(context));
  if (kind && !kind->hasTrait<mlir::OpTrait::IsTerminator>())
    refuse("'" + textOf(name) + "' is no terminator: it cannot have successors.");
}

// ---- Inference of types.

/// MLIR infers types from operands and attributes that nobody has verified, and for the operations of this list that ends
/// the process if they are not what they should be.
static const llvm::StringSet<> &uncheckedInference() {
  static const llvm::StringSet<> names = {
#include "lot_python/unchecked_inference.inc"
  };
  return names;
}

/// An operation of that list is first verified with results of some other type. What the verifier has against its operands
/// and attributes is reported, and the answer is false.
static bool canInferTypes(llvm::StringRef name, mlir::Location location, mlir::ValueRange operands,
                          mlir::DictionaryAttr attributes, mlir::BlockRange successors, std::intptr_t regions) {
  mlir::MLIRContext *context = location.getContext();
  auto kind = mlir::RegisteredOperationName::lookup(name, context);
  if (!kind || !uncheckedInference().contains(name))
    return true;
  std::string found;
  // Without the right number of results the verifier looks at nothing else.
  for (unsigned results : {1, 0, 2, 3, 4}) {
    mlir::OperationState state(location, *kind);
    state.addOperands(operands);
    if (attributes)
      state.attributes = mlir::NamedAttrList(attributes);
    state.addSuccessors(successors);
    state.types.assign(results, mlir::NoneType::get(context));
    for (std::intptr_t i = 0; i < regions; ++i)
      state.addRegion();
    CaughtErrors errors(wrap(context));
    mlir::Operation *probe = mlir::Operation::create(state);
    (void)kind->verifyInvariants(probe);
    mlirOperationDestroy(wrap(probe)); // by the library that is observed already
    found = std::move(errors.text);
    if (!llvm::StringRef(found).contains("result"))
      break;
  }
  llvm::StringRef text = found;
  bool concernsInput = text.contains("operand") || text.contains("attribute") || text.contains("successor") ||
                       (text.contains("region") && (text.contains("requires") || text.contains("expected"))); // their number
  if (text.contains("result") || !concernsInput)
    return true;
  mlir::emitError(location) << text;
  return false;
}

// ---- The calls. Each function says itself what it needs.

namespace checked {

// ---- Locations.

static MlirLocation requireKind(bool is, MlirLocation location, const char *kind, const char *question) {
  if (!is)
    refuse(print(mlirLocationPrint, location) + " is no " + kind + " location (see " + question + ").");
  return location;
}

MlirLocation mlirLocationCallSiteGetCallee(MlirLocation location) {
  requireKind(mlirLocationIsACallSite(location), location, "callsite", "is_a_callsite");
  return ::mlirLocationCallSiteGetCallee(location);
}

MlirLocation mlirLocationCallSiteGetCaller(MlirLocation location) {
  requireKind(mlirLocationIsACallSite(location), location, "callsite", "is_a_callsite");
  return ::mlirLocationCallSiteGetCaller(location);
}

MlirIdentifier mlirLocationFileLineColRangeGetFilename(MlirLocation location) {
  requireKind(mlirLocationIsAFileLineColRange(location), location, "file", "is_a_file");
  return ::mlirLocationFileLineColRangeGetFilename(location);
}

MlirIdentifier mlirLocationNameGetName(MlirLocation location) {
  requireKind(mlirLocationIsAName(location), location, "name", "is_a_name");
  return ::mlirLocationNameGetName(location);
}

MlirLocation mlirLocationNameGetChildLoc(MlirLocation location) {
  requireKind(mlirLocationIsAName(location), location, "name", "is_a_name");
  return ::mlirLocationNameGetChildLoc(location);
}

/// MLIR prints nested locations by recursion.
static void requireShallow(MlirLocation location, MlirLocation next(MlirLocation)) {
  for (int depth = 0; mlirLocationIsACallSite(location); location = next(location))
    if (++depth == 10000)
      refuse("A location cannot have more than 10,000 frames.");
}

MlirLocation mlirLocationCallSiteGet(MlirLocation callee, MlirLocation caller) {
  requireShallow(callee, ::mlirLocationCallSiteGetCallee);
  requireShallow(caller, ::mlirLocationCallSiteGetCaller);
  return oneContext<&::mlirLocationCallSiteGet>(callee, caller);
}

MlirLocation mlirLocationFromAttribute(MlirAttribute attribute) {
  if (!mlirAttributeIsALocation(attribute))
    refuse(quoted(attribute) + " is no location.");
  return ::mlirLocationFromAttribute(attribute);
}

// ---- Attributes.

MlirAttribute mlirIntegerAttrGet(MlirType type, std::int64_t value) {
  if (!mlirTypeIsAInteger(type) && !mlirTypeIsAIndex(type))
    refuse("An integer attribute needs an integer type or index, not " + quoted(type) + ".");
  return ::mlirIntegerAttrGet(type, value);
}

/// Raises OverflowError for a value that a Python caller would get as 64 bits.
static void requireWord(MlirAttribute attribute) {
  MlirType type = mlirAttributeGetType(attribute);
  if (!mlirTypeIsAInteger(type) || mlirIntegerTypeGetWidth(type) <= 64)
    return;
  PyErr_SetString(PyExc_OverflowError, (quoted(attribute) + " has more than 64 bits.").c_str());
  nb::raise_python_error();
}

bool mlirBoolAttrGetValue(MlirAttribute attribute) {
  if (!mlirAttributeIsABool(attribute))
    refuse(quoted(attribute) + " is no bool attribute.");
  return ::mlirBoolAttrGetValue(attribute);
}

double mlirFloatAttrGetValueDouble(MlirAttribute attribute) {
  if (!mlirAttributeIsAFloat(attribute))
    refuse(quoted(attribute) + " is no float attribute.");
  return ::mlirFloatAttrGetValueDouble(attribute);
}

std::int64_t mlirIntegerAttrGetValueInt(MlirAttribute attribute) {
  requireWord(attribute);
  return ::mlirIntegerAttrGetValueInt(attribute);
}

std::int64_t mlirIntegerAttrGetValueSInt(MlirAttribute attribute) {
  requireWord(attribute);
  return ::mlirIntegerAttrGetValueSInt(attribute);
}

std::uint64_t mlirIntegerAttrGetValueUInt(MlirAttribute attribute) {
  requireWord(attribute);
  return ::mlirIntegerAttrGetValueUInt(attribute);
}

MlirAttribute mlirFloatAttrDoubleGet(MlirContext context, MlirType type, double value) {
  requireContext(context, type);
  if (!mlirTypeIsAFloat(type))
    refuse("A float attribute needs a float type, not " + quoted(type) + ".");
  return ::mlirFloatAttrDoubleGet(context, type, value);
}

MlirAttribute mlirArrayAttrGetElement(MlirAttribute attribute, std::intptr_t index) {
  requireIndex(index, mlirArrayAttrGetNumElements(attribute), "ArrayAttribute index out of range");
  return ::mlirArrayAttrGetElement(attribute, index);
}

MlirAttribute mlirDictionaryAttrGet(MlirContext context, std::intptr_t count, MlirNamedAttribute const *elements) {
  requireContext(context, count, elements);
  return ::mlirDictionaryAttrGet(context, count, elements);
}

MlirNamedAttribute mlirDictionaryAttrGetElement(MlirAttribute attribute, std::intptr_t index) {
  requireIndex(index, mlirDictionaryAttrGetNumElements(attribute), "attempt to access out of bounds attribute");
  return ::mlirDictionaryAttrGetElement(attribute, index);
}

static void requireAttributeName(MlirStringRef name) {
  if (name.length == 0)
    refuse("An attribute's name cannot be empty.");
}

MlirNamedAttribute mlirNamedAttributeGet(MlirIdentifier name, MlirAttribute attribute) {
  requireContext(mlirIdentifierGetContext(name), attribute);
  requireAttributeName(mlirIdentifierStr(name));
  return ::mlirNamedAttributeGet(name, attribute);
}

#define LOT_PYTHON_DENSE_ARRAY(function)                                                                               \
  decltype(::function(MlirAttribute(), 0)) function(MlirAttribute attribute, std::intptr_t index) {                   \
    requireIndex(index, mlirDenseArrayGetNumElements(attribute), "DenseArray index out of range");                     \
    return ::function(attribute, index);                                                                               \
  }
LOT_PYTHON_DENSE_ARRAY(mlirDenseBoolArrayGetElement)
LOT_PYTHON_DENSE_ARRAY(mlirDenseI8ArrayGetElement)
LOT_PYTHON_DENSE_ARRAY(mlirDenseI16ArrayGetElement)
LOT_PYTHON_DENSE_ARRAY(mlirDenseI32ArrayGetElement)
LOT_PYTHON_DENSE_ARRAY(mlirDenseI64ArrayGetElement)
LOT_PYTHON_DENSE_ARRAY(mlirDenseF32ArrayGetElement)
LOT_PYTHON_DENSE_ARRAY(mlirDenseF64ArrayGetElement)
#undef LOT_PYTHON_DENSE_ARRAY

MlirAttribute mlirOpaqueAttrGet(MlirContext context, MlirStringRef name, std::intptr_t length, const char *data,
                                MlirType type) {
  requireContext(context, type);
  requireNamespace(context, name);
  return ::mlirOpaqueAttrGet(context, name, length, data, type);
}

/// The number of elements of what dense elements can have as their type.
static std::int64_t requireElements(MlirType type) {
  if (!mlirTypeIsARankedTensor(type) && !mlirTypeIsAVector(type))
    refuse("Dense elements need a ranked tensor or vector type, not " + quoted(type) + ".");
  if (!mlirShapedTypeHasStaticShape(type))
    refuse("Dense elements need a static shape, not " + quoted(type) + ".");
  std::int64_t count = 1;
  for (std::intptr_t i = 0, e = mlirShapedTypeGetRank(type); i < e; ++i)
    if (__builtin_mul_overflow(count, ::mlirShapedTypeGetDimSize(type, i), &count))
      refuse(quoted(type) + " has too many elements.");
  return count;
}

static void requireElement(MlirType type, MlirAttribute element) {
  MlirType wanted = mlirShapedTypeGetElementType(type);
  bool right = mlirTypeIsAInteger(wanted) || mlirTypeIsAIndex(wanted) ? mlirAttributeIsAInteger(element)
               : mlirTypeIsAFloat(wanted)                             ? mlirAttributeIsAFloat(element)
                                                                      : mlirAttributeIsAString(element);
  if (!right || !mlirTypeEqual(mlirAttributeGetType(element), wanted))
    refuse(quoted(element) + " cannot be an element of " + quoted(type) + ".");
}

MlirAttribute mlirDenseElementsAttrGet(MlirType type, std::intptr_t count, MlirAttribute const *elements) {
  requireContext(mlirTypeGetContext(type), count, elements);
  std::int64_t wanted = requireElements(type);
  if (count != wanted && count != 1)
    refuse(quoted(type) + " has " + std::to_string(wanted) + " elements, not " + std::to_string(count) + ".");
  for (std::intptr_t i = 0; i < count; ++i)
    requireElement(type, elements[i]);
  return ::mlirDenseElementsAttrGet(type, count, elements);
}

MlirAttribute mlirDenseElementsAttrSplatGet(MlirType type, MlirAttribute element) {
  requireContext(mlirTypeGetContext(type), element);
  (void)requireElements(type);
  requireElement(type, element);
  return ::mlirDenseElementsAttrSplatGet(type, element);
}

MlirAttribute mlirDenseElementsAttrRawBufferGet(MlirType type, std::size_t size, const void *buffer) {
  (void)requireElements(type);
  MlirType element = mlirShapedTypeGetElementType(type);
  if (mlirTypeIsAComplex(element))
    element = mlirComplexTypeGetElementType(element);
  if (!isNumber(element) && !mlirTypeIsAIndex(element))
    refuse("A buffer has no elements of type " + quoted(element) + ".");
  return ::mlirDenseElementsAttrRawBufferGet(type, size, buffer);
}

MlirAttribute mlirUnmanagedDenseResourceElementsAttrGet(MlirType type, MlirStringRef name, void *data, std::size_t length,
                                                        std::size_t alignment, bool isMutable,
                                                        void (*deleter)(void *, const void *, std::size_t, std::size_t),
                                                        void *userData) {
  (void)requireElements(type);
  if (alignment == 0 || (alignment & (alignment - 1)) != 0)
    refuse("The alignment has to be a power of two, not " + std::to_string(alignment) + ".");
  return ::mlirUnmanagedDenseResourceElementsAttrGet(type, name, data, length, alignment, isMutable, deleter, userData);
}

MlirStringRef mlirStringAttrGetValue(MlirAttribute attribute) {
  if (!mlirAttributeIsAString(attribute))
    refuse(quoted(attribute) + " is no string.");
  return ::mlirStringAttrGetValue(attribute);
}

// ---- Types.

static void requireWidth(unsigned width) {
  constexpr unsigned kMostBits = (1u << 24) - 1;
  if (width > kMostBits)
    refuse("An integer type can have at most " + std::to_string(kMostBits) + " bits, not " + std::to_string(width) + ".");
}

MlirType mlirIntegerTypeGet(MlirContext context, unsigned width) {
  requireWidth(width);
  return ::mlirIntegerTypeGet(context, width);
}

MlirType mlirIntegerTypeSignedGet(MlirContext context, unsigned width) {
  requireWidth(width);
  return ::mlirIntegerTypeSignedGet(context, width);
}

MlirType mlirIntegerTypeUnsignedGet(MlirContext context, unsigned width) {
  requireWidth(width);
  return ::mlirIntegerTypeUnsignedGet(context, width);
}

MlirType mlirComplexTypeGet(MlirType element) {
  if (!isNumber(element))
    refuse("A complex type needs an integer or float type, not " + quoted(element) + ".");
  return ::mlirComplexTypeGet(element);
}

MlirType mlirVectorTypeGet(std::intptr_t rank, const std::int64_t *shape, MlirType element) {
  return makeType(mlirTypeGetContext(element),
                  [&](MlirLocation location) { return mlirVectorTypeGetChecked(location, rank, shape, element); });
}

MlirType mlirVectorTypeGetScalable(std::intptr_t rank, const std::int64_t *shape, const bool *scalable, MlirType element) {
  return makeType(mlirTypeGetContext(element), [&](MlirLocation location) {
    return mlirVectorTypeGetScalableChecked(location, rank, shape, scalable, element);
  });
}

MlirType mlirRankedTensorTypeGet(std::intptr_t rank, const std::int64_t *shape, MlirType element, MlirAttribute encoding) {
  requireContext(mlirTypeGetContext(element), encoding);
  return makeType(mlirTypeGetContext(element), [&](MlirLocation location) {
    return mlirRankedTensorTypeGetChecked(location, rank, shape, element, encoding);
  });
}

MlirType mlirUnrankedTensorTypeGet(MlirType element) {
  return makeType(mlirTypeGetContext(element),
                  [&](MlirLocation location) { return mlirUnrankedTensorTypeGetChecked(location, element); });
}

static void requireLayout(MlirAttribute layout) {
  if (!mlirAttributeIsNull(layout) && !mlir::isa<mlir::MemRefLayoutAttrInterface>(unwrap(layout)))
    refuse(quoted(layout) + " cannot be a layout: an affine map or a strided layout can.");
}

MlirType mlirMemRefTypeGet(MlirType element, std::intptr_t rank, const std::int64_t *shape, MlirAttribute layout,
                           MlirAttribute space) {
  requireContext(mlirTypeGetContext(element), layout, space);
  requireLayout(layout);
  return makeType(mlirTypeGetContext(element), [&](MlirLocation location) {
    return ::mlirMemRefTypeGetChecked(location, element, rank, shape, layout, space);
  });
}

MlirType mlirMemRefTypeGetChecked(MlirLocation location, MlirType element, std::intptr_t rank, const std::int64_t *shape,
                                  MlirAttribute layout, MlirAttribute space) {
  requireContext(mlirLocationGetContext(location), element, layout, space);
  requireLayout(layout);
  return ::mlirMemRefTypeGetChecked(location, element, rank, shape, layout, space);
}

MlirType mlirUnrankedMemRefTypeGet(MlirType element, MlirAttribute space) {
  requireContext(mlirTypeGetContext(element), space);
  return makeType(mlirTypeGetContext(element),
                  [&](MlirLocation location) { return mlirUnrankedMemRefTypeGetChecked(location, element, space); });
}

MlirType mlirOpaqueTypeGet(MlirContext context, MlirStringRef name, MlirStringRef data) {
  requireNamespace(context, name);
  return ::mlirOpaqueTypeGet(context, name, data);
}

static void requireDimension(MlirType type, std::intptr_t dimension) {
  requireIndex(dimension, mlirShapedTypeHasRank(type) ? mlirShapedTypeGetRank(type) : 0, "dimension out of range");
}

std::int64_t mlirShapedTypeGetDimSize(MlirType type, std::intptr_t dimension) {
  requireDimension(type, dimension);
  return ::mlirShapedTypeGetDimSize(type, dimension);
}

bool mlirShapedTypeIsDynamicDim(MlirType type, std::intptr_t dimension) {
  requireDimension(type, dimension);
  return ::mlirShapedTypeIsDynamicDim(type, dimension);
}

bool mlirShapedTypeIsStaticDim(MlirType type, std::intptr_t dimension) {
  requireDimension(type, dimension);
  return ::mlirShapedTypeIsStaticDim(type, dimension);
}

bool mlirVectorTypeIsDimScalable(MlirType type, std::intptr_t dimension) {
  requireDimension(type, dimension);
  return ::mlirVectorTypeIsDimScalable(type, dimension);
}

MlirType mlirTupleTypeGetType(MlirType type, std::intptr_t index) {
  requireIndex(index, mlirTupleTypeGetNumTypes(type), "tuple index out of range");
  return ::mlirTupleTypeGetType(type, index);
}

MlirType mlirFunctionTypeGetInput(MlirType type, std::intptr_t index) {
  requireIndex(index, mlirFunctionTypeGetNumInputs(type), "input index out of range");
  return ::mlirFunctionTypeGetInput(type, index);
}

MlirType mlirFunctionTypeGetResult(MlirType type, std::intptr_t index) {
  requireIndex(index, mlirFunctionTypeGetNumResults(type), "result index out of range");
  return ::mlirFunctionTypeGetResult(type, index);
}

MlirType mlirLLVMPointerTypeGet(MlirContext context, unsigned space) {
  requireDialect(context, "llvm");
  return ::mlirLLVMPointerTypeGet(context, space);
}

MlirType mlirLLVMStructTypeLiteralGet(MlirContext context, std::intptr_t count, MlirType const *types, bool packed) {
  requireContext(context, count, types);
  requireDialect(context, "llvm");
  return makeType(context, [&](MlirLocation location) {
    return ::mlirLLVMStructTypeLiteralGetChecked(location, count, types, packed);
  });
}

MlirType mlirLLVMStructTypeLiteralGetChecked(MlirLocation location, std::intptr_t count, MlirType const *types,
                                             bool packed) {
  requireContext(mlirLocationGetContext(location), count, types);
  requireDialect(mlirLocationGetContext(location), "llvm");
  return ::mlirLLVMStructTypeLiteralGetChecked(location, count, types, packed);
}

static void requireStructName(MlirStringRef name) {
  if (name.length == 0)
    refuse("An identified struct needs a name.");
}

MlirType mlirLLVMStructTypeIdentifiedGet(MlirContext context, MlirStringRef name) {
  requireDialect(context, "llvm");
  requireStructName(name);
  return ::mlirLLVMStructTypeIdentifiedGet(context, name);
}

MlirType mlirLLVMStructTypeIdentifiedNewGet(MlirContext context, MlirStringRef name, std::intptr_t count,
                                            MlirType const *types, bool packed) {
  (void)checked::mlirLLVMStructTypeLiteralGet(context, count, types, packed); // refuses what cannot be an element
  requireStructName(name);
  return ::mlirLLVMStructTypeIdentifiedNewGet(context, name, count, types, packed);
}

MlirType mlirLLVMStructTypeOpaqueGet(MlirContext context, MlirStringRef name) {
  requireDialect(context, "llvm");
  requireStructName(name);
  return ::mlirLLVMStructTypeOpaqueGet(context, name);
}

MlirLogicalResult mlirLLVMStructTypeSetBody(MlirType type, std::intptr_t count, MlirType const *types, bool packed) {
  (void)checked::mlirLLVMStructTypeLiteralGet(mlirTypeGetContext(type), count, types, packed);
  if (mlirLLVMStructTypeIsLiteral(type))
    refuse(quoted(type) + " has no name: only an identified struct gets its body later.");
  return ::mlirLLVMStructTypeSetBody(type, count, types, packed);
}

MlirType mlirLLVMStructTypeGetElementType(MlirType type, std::intptr_t index) {
  requireIndex(index, mlirLLVMStructTypeGetNumElementTypes(type), "element index out of range");
  return ::mlirLLVMStructTypeGetElementType(type, index);
}

MlirType mlirSMTTypeGetBool(MlirContext context) {
  requireDialect(context, "smt");
  return ::mlirSMTTypeGetBool(context);
}

MlirType mlirSMTTypeGetInt(MlirContext context) {
  requireDialect(context, "smt");
  return ::mlirSMTTypeGetInt(context);
}

MlirType mlirSMTTypeGetBitVector(MlirContext context, std::int32_t width) {
  requireDialect(context, "smt");
  if (width < 1)
    refuse("A bit vector has at least one bit.");
  return ::mlirSMTTypeGetBitVector(context, width);
}

// ---- Affine expressions, maps and sets.

namespace {

/// More inputs than this only come of a wrong number, and MLIR makes a list of all of them.
constexpr std::intptr_t kMostInputs = 1 << 20;

void requireInputs(std::intptr_t count) {
  if (count < 0 || count > kMostInputs)
    refuse("The number of dimensions or symbols has to be between 0 and " + std::to_string(kMostInputs) + ", not " +
           std::to_string(count) + ".");
}

void requirePosition(std::intptr_t position) {
  if (position < 0 || position >= kMostInputs)
    refuse("The position of a dimension or symbol has to be between 0 and " + std::to_string(kMostInputs - 1) + ", not " +
           std::to_string(position) + ".");
}

bool isBinary(MlirAffineExpr expr) { return mlirAffineExprIsABinary(expr); }

/// How many dimensions and symbols an expression needs.
struct Inputs {
  std::intptr_t dims = 0, symbols = 0;

  void add(MlirAffineExpr expr) {
    if (isBinary(expr)) {
      add(mlirAffineBinaryOpExprGetLHS(expr));
      add(mlirAffineBinaryOpExprGetRHS(expr));
    } else if (mlirAffineExprIsADim(expr)) {
      dims = std::max(dims, mlirAffineDimExprGetPosition(expr) + 1);
    } else if (mlirAffineExprIsASymbol(expr)) {
      symbols = std::max(symbols, mlirAffineSymbolExprGetPosition(expr) + 1);
    }
  }
  /// The same for the expression with one part replaced.
  void addReplaced(MlirAffineExpr expr, MlirAffineExpr part, MlirAffineExpr by) {
    if (mlirAffineExprEqual(expr, part)) {
      add(by);
    } else if (isBinary(expr)) {
      addReplaced(mlirAffineBinaryOpExprGetLHS(expr), part, by);
      addReplaced(mlirAffineBinaryOpExprGetRHS(expr), part, by);
    } else {
      add(expr);
    }
  }
  void require(std::intptr_t numDims, std::intptr_t numSymbols) const {
    requireInputs(numDims);
    requireInputs(numSymbols);
    if (dims > numDims || symbols > numSymbols)
      refuse("The expressions need " + std::to_string(dims) + " dimensions and " + std::to_string(symbols) +
             " symbols, and there are " + std::to_string(numDims) + " and " + std::to_string(numSymbols) + ".");
  }
};

} // namespace

MlirAffineExpr mlirAffineDimExprGet(MlirContext context, std::intptr_t position) {
  requirePosition(position);
  return ::mlirAffineDimExprGet(context, position);
}

MlirAffineExpr mlirAffineSymbolExprGet(MlirContext context, std::intptr_t position) {
  requirePosition(position);
  return ::mlirAffineSymbolExprGet(context, position);
}

static void requireShift(std::uint32_t count, std::uint32_t shift, std::uint32_t offset) {
  requireInputs(count);
  requireInputs(std::intptr_t(count) + shift);
  if (offset > count)
    refuse("The offset " + std::to_string(offset) + " is beyond the number of inputs, " + std::to_string(count) + ".");
}

MlirAffineExpr mlirAffineExprShiftDims(MlirAffineExpr expr, std::uint32_t count, std::uint32_t shift, std::uint32_t offset) {
  requireShift(count, shift, offset);
  return ::mlirAffineExprShiftDims(expr, count, shift, offset);
}

MlirAffineExpr mlirAffineExprShiftSymbols(MlirAffineExpr expr, std::uint32_t count, std::uint32_t shift,
                                          std::uint32_t offset) {
  requireShift(count, shift, offset);
  return ::mlirAffineExprShiftSymbols(expr, count, shift, offset);
}

MlirAffineExpr mlirSimplifyAffineExpr(MlirAffineExpr expr, std::uint32_t dims, std::uint32_t symbols) {
  Inputs inputs;
  inputs.add(expr);
  inputs.require(dims, symbols);
  return ::mlirSimplifyAffineExpr(expr, dims, symbols);
}

MlirAffineMap mlirAffineMapGet(MlirContext context, std::intptr_t dims, std::intptr_t symbols, std::intptr_t count,
                               MlirAffineExpr *exprs) {
  requireContext(context, count, exprs);
  Inputs inputs;
  std::for_each(exprs, exprs + count, [&](MlirAffineExpr expr) { inputs.add(expr); });
  inputs.require(dims, symbols);
  return ::mlirAffineMapGet(context, dims, symbols, count, exprs);
}

MlirAffineMap mlirAffineMapMultiDimIdentityGet(MlirContext context, std::intptr_t dims) {
  requireInputs(dims);
  return ::mlirAffineMapMultiDimIdentityGet(context, dims);
}

MlirAffineMap mlirAffineMapMinorIdentityGet(MlirContext context, std::intptr_t dims, std::intptr_t results) {
  requireInputs(dims);
  if (results < 0 || results > dims)
    refuse("A minor identity of " + std::to_string(dims) + " dimensions cannot have " + std::to_string(results) +
           " results.");
  return ::mlirAffineMapMinorIdentityGet(context, dims, results);
}

MlirAffineMap mlirAffineMapPermutationGet(MlirContext context, std::intptr_t size, unsigned *permutation) {
  if (size == 0)
    refuse("A permutation cannot be empty.");
  return ::mlirAffineMapPermutationGet(context, size, permutation);
}

MlirAffineExpr mlirAffineMapGetResult(MlirAffineMap map, std::intptr_t index) {
  requireIndex(index, mlirAffineMapGetNumResults(map), "result index out of range");
  return ::mlirAffineMapGetResult(map, index);
}

static void requireResults(std::intptr_t count) {
  if (count < 1)
    throw nb::value_error("number of results out of bounds");
}

MlirAffineMap mlirAffineMapGetMajorSubMap(MlirAffineMap map, std::intptr_t count) {
  requireResults(count);
  return ::mlirAffineMapGetMajorSubMap(map, count);
}

MlirAffineMap mlirAffineMapGetMinorSubMap(MlirAffineMap map, std::intptr_t count) {
  requireResults(count);
  return ::mlirAffineMapGetMinorSubMap(map, count);
}

MlirAffineMap mlirAffineMapReplace(MlirAffineMap map, MlirAffineExpr part, MlirAffineExpr by, std::intptr_t dims,
                                   std::intptr_t symbols) {
  requireContext(mlirAffineMapGetContext(map), part, by);
  Inputs inputs;
  for (std::intptr_t i = 0, e = mlirAffineMapGetNumResults(map); i < e; ++i)
    inputs.addReplaced(::mlirAffineMapGetResult(map, i), part, by);
  inputs.require(dims, symbols);
  return ::mlirAffineMapReplace(map, part, by, dims, symbols);
}

MlirIntegerSet mlirIntegerSetGet(MlirContext context, std::intptr_t dims, std::intptr_t symbols, std::intptr_t count,
                                 const MlirAffineExpr *exprs, const bool *isEquality) {
  requireContext(context, count, exprs);
  Inputs inputs;
  std::for_each(exprs, exprs + count, [&](MlirAffineExpr expr) { inputs.add(expr); });
  inputs.require(dims, symbols);
  return ::mlirIntegerSetGet(context, dims, symbols, count, exprs, isEquality);
}

MlirIntegerSet mlirIntegerSetEmptyGet(MlirContext context, std::intptr_t dims, std::intptr_t symbols) {
  requireInputs(dims);
  requireInputs(symbols);
  return ::mlirIntegerSetEmptyGet(context, dims, symbols);
}

MlirIntegerSet mlirIntegerSetReplaceGet(MlirIntegerSet set, const MlirAffineExpr *dims, const MlirAffineExpr *symbols,
                                        std::intptr_t numDims, std::intptr_t numSymbols) {
  std::intptr_t oldDims = mlirIntegerSetGetNumDims(set), oldSymbols = mlirIntegerSetGetNumSymbols(set);
  requireContext(mlirIntegerSetGetContext(set), oldDims, dims, oldSymbols, symbols);
  Inputs inputs;
  std::for_each(dims, dims + oldDims, [&](MlirAffineExpr expr) { inputs.add(expr); });
  std::for_each(symbols, symbols + oldSymbols, [&](MlirAffineExpr expr) { inputs.add(expr); });
  inputs.require(numDims, numSymbols);
  return ::mlirIntegerSetReplaceGet(set, dims, symbols, numDims, numSymbols);
}

// ---- Texts. MLIR's parser is recursive, and its errors in an empty text point behind that.

/// Raises ValueError if brackets are nested deeper than the parser's stack allows. Bytecode has none.
static void requireShallow(llvm::StringRef text) {
  constexpr int deepest = 4000;
  if (text.starts_with("ML\xefR"))
    return;
  int depth = 0;
  for (std::size_t i = 0, e = text.size(); i < e; ++i) {
    switch (text[i]) {
    case '(': case '[': case '{': case '<':
      if (++depth > deepest)
        refuse("The text cannot be parsed: its brackets are nested more than " + std::to_string(deepest) + " deep.");
      break;
    case ')': case ']': case '}':
      --depth;
      break;
    case '>':
      depth -= i == 0 || text[i - 1] != '-';
      break;
    case '"':
      while (++i < e && text[i] != '"')
        i += text[i] == '\\';
      break;
    case '/':
      if (i + 1 < e && text[i + 1] == '/')
        while (i < e && text[i] != '\n')
          ++i;
      break;
    }
  }
}

static MlirStringRef parsable(MlirStringRef text) {
  requireShallow(unwrap(text));
  return text.length ? text : mlirStringRefCreateFromCString(" ");
}

MlirAttribute mlirAttributeParseGet(MlirContext context, MlirStringRef text) {
  return ::mlirAttributeParseGet(context, parsable(text));
}

MlirType mlirTypeParseGet(MlirContext context, MlirStringRef text) {
  return ::mlirTypeParseGet(context, parsable(text));
}

MlirOperation mlirOperationCreateParse(MlirContext context, MlirStringRef text, MlirStringRef name) {
  requireShallow(unwrap(text));
  return ::mlirOperationCreateParse(context, text, name);
}

MlirModule mlirModuleCreateParse(MlirContext context, MlirStringRef text) {
  requireShallow(unwrap(text));
  return ::mlirModuleCreateParse(context, text);
}

MlirModule mlirModuleCreateParseFromFile(MlirContext context, MlirStringRef path) {
  if (auto file = llvm::MemoryBuffer::getFile(unwrap(path)))
    requireShallow((*file)->getBuffer());
  return ::mlirModuleCreateParseFromFile(context, path);
}

// ---- Operations, blocks and values. Printing verifies first, unless it prints the generic form.

void mlirOperationSetAttributeByName(MlirOperation operation, MlirStringRef name, MlirAttribute attribute) {
  requireContext(mlirOperationGetContext(operation), attribute);
  requireAttributeName(name);
  ::mlirOperationSetAttributeByName(operation, name, attribute);
}

MlirOperation mlirOperationClone(MlirOperation operation) {
  auto lacksSuccessor = [](mlir::Operation *inner) {
    for (mlir::Block *successor : inner->getSuccessors())
      if (!successor)
        return mlir::WalkResult::interrupt();
    return mlir::WalkResult::advance();
  };
  if (unwrap(operation)->walk(lacksSuccessor).wasInterrupted())
    refuse(quotedName(operation) + " cannot be cloned: a block that something in it branches to has gone.");
  return ::mlirOperationClone(operation);
}

/// What the inference of types takes as attributes and properties. Nothing can tell what a capsule with properties has.
static void requireInferable(MlirAttribute attributes, void *properties) {
  if (!mlirAttributeIsNull(attributes) && !mlirAttributeIsADictionary(attributes))
    refuse("The attributes have to be a dictionary attribute, not " + quoted(attributes) + ".");
  if (properties)
    refuse("Properties cannot be given from Python: give them as attributes.");
}

static bool canInfer(MlirStringRef name, MlirLocation location, std::intptr_t numOperands, MlirValue *operands,
                     MlirAttribute attributes, std::intptr_t numRegions) {
  llvm::SmallVector<mlir::Value> values;
  for (std::intptr_t i = 0; i < numOperands; ++i)
    values.push_back(unwrap(operands[i]));
  auto dictionary = mlir::dyn_cast_if_present<mlir::DictionaryAttr>(unwrap(attributes));
  return canInferTypes(unwrap(name), unwrap(location), values, dictionary, {}, numRegions);
}

MlirOperation mlirOperationCreate(MlirOperationState *state) {
  if (state->enableResultTypeInference) {
    llvm::SmallVector<mlir::Value> operands;
    for (std::intptr_t i = 0; i < state->nOperands; ++i)
      operands.push_back(unwrap(state->operands[i]));
    llvm::SmallVector<mlir::Block *> successors;
    for (std::intptr_t i = 0; i < state->nSuccessors; ++i)
      successors.push_back(unwrap(state->successors[i]));
    llvm::SmallVector<mlir::NamedAttribute> attributes;
    for (std::intptr_t i = 0; i < state->nAttributes; ++i)
      attributes.emplace_back(unwrap(state->attributes[i].name), unwrap(state->attributes[i].attribute));
    mlir::Location location = unwrap(state->location);
    if (!canInferTypes(unwrap(state->name), location, operands,
                       mlir::DictionaryAttr::get(location.getContext(), attributes), successors, state->nRegions)) {
      // What the call itself would have taken over and freed.
      for (std::intptr_t i = 0; i < state->nRegions; ++i)
        mlirRegionDestroy(state->regions[i]);
      std::free(state->results), std::free(state->operands), std::free(state->regions);
      std::free(state->successors), std::free(state->attributes);
      return {nullptr};
    }
  }
  return ::mlirOperationCreate(state);
}

MlirLogicalResult mlirInferTypeOpInterfaceInferReturnTypes(MlirStringRef name, MlirContext context, MlirLocation location,
                                                           std::intptr_t numOperands, MlirValue *operands,
                                                           MlirAttribute attributes, void *properties,
                                                           std::intptr_t numRegions, MlirRegion *regions,
                                                           MlirTypesCallback callback, void *data) {
  requireInferable(attributes, properties);
  if (!canInfer(name, location, numOperands, operands, attributes, numRegions))
    return mlirLogicalResultFailure();
  return oneContext<&::mlirInferTypeOpInterfaceInferReturnTypes>(name, context, location, numOperands, operands, attributes,
                                                                 properties, numRegions, regions, callback, data);
}

MlirLogicalResult mlirInferShapedTypeOpInterfaceInferReturnTypes(
    MlirStringRef name, MlirContext context, MlirLocation location, std::intptr_t numOperands, MlirValue *operands,
    MlirAttribute attributes, void *properties, std::intptr_t numRegions, MlirRegion *regions,
    MlirShapedTypeComponentsCallback callback, void *data) {
  requireInferable(attributes, properties);
  if (!canInfer(name, location, numOperands, operands, attributes, numRegions))
    return mlirLogicalResultFailure();
  return oneContext<&::mlirInferShapedTypeOpInterfaceInferReturnTypes>(name, context, location, numOperands, operands,
                                                                       attributes, properties, numRegions, regions,
                                                                       callback, data);
}

bool mlirOperationVerify(MlirOperation operation) {
  requireVerifiable(operation, "verified");
  return ::mlirOperationVerify(operation);
}

/// Printing flags for what cannot be verified.
namespace {
class GenericFlags {
public:
  GenericFlags() : flags(mlirOpPrintingFlagsCreate()) { mlirOpPrintingFlagsPrintGenericOpForm(flags); }
  GenericFlags(const GenericFlags &) = delete;
  GenericFlags &operator=(const GenericFlags &) = delete;
  ~GenericFlags() { mlirOpPrintingFlagsDestroy(flags); }

  MlirOpPrintingFlags flags;
};
} // namespace

/// Whether all operations beside the one that is printed, and around it, can be asked for names of their values: MLIR
/// numbers the whole tree, and verifies only what is printed.
static bool canBeAskedForNames(MlirOperation printed) {
  MlirOperation root = rootOf(printed);
  if (root.ptr == printed.ptr)
    return true;
  CaughtErrors errors(mlirOperationGetContext(root));
  return !unwrap(root)
              ->walk<mlir::WalkOrder::PreOrder>([](mlir::Operation *operation) {
                auto kind = operation->getRegisteredInfo();
                if (!kind || !kind->hasInterface<mlir::OpAsmOpInterface>() ||
                    mlir::succeeded(kind->verifyInvariants(operation)))
                  return mlir::WalkResult::advance();
                return mlir::WalkResult::interrupt();
              })
              .wasInterrupted();
}

/// MLIR verifies the tree that it numbers, or what is printed of it.
static bool isPrintable(MlirOperation operation) {
  return isVerifiable(rootOf(operation)) && canBeAskedForNames(operation);
}

void mlirOperationPrintWithFlags(MlirOperation operation, MlirOpPrintingFlags flags, MlirStringCallback callback,
                                 void *data) {
  if (!isPrintable(operation))
    mlirOpPrintingFlagsPrintGenericOpForm(flags);
  ::mlirOperationPrintWithFlags(operation, flags, callback, data);
}

void mlirOperationPrintWithState(MlirOperation operation, MlirAsmState state, MlirStringCallback callback, void *data) {
  // The state has the form that was right for what it was made of, at that time.
  if (isValid(operation))
    return ::mlirOperationPrintWithState(operation, state, callback, data);
  GenericFlags generic;
  ::mlirOperationPrintWithFlags(operation, generic.flags, callback, data);
}

void mlirOperationDump(MlirOperation operation) {
  if (isPrintable(operation))
    return ::mlirOperationDump(operation);
  GenericFlags generic;
  std::string text;
  ::mlirOperationPrintWithFlags(operation, generic.flags, appendTo(text), &text);
  std::fprintf(stderr, "%s\n", text.c_str());
}

void mlirBlockPrint(MlirBlock block, MlirStringCallback callback, void *data) {
  MlirOperation owner = mlirBlockGetParentOperation(block);
  if (!mlirOperationIsNull(owner))
    requireVerifiable(owner, "printed block by block");
  if (!mlirOperationIsNull(owner) && isValid(owner) && !canBeAskedForNames(owner))
    refuse(quotedName(owner) + " cannot be printed block by block, since something around it is not valid: print the operation.");
  ::mlirBlockPrint(block, callback, data);
}

static MlirOperation ownerOf(MlirValue value) {
  return mlirValueIsABlockArgument(value) ? mlirBlockGetParentOperation(mlirBlockArgumentGetOwner(value))
                                          : mlirOpResultGetOwner(value);
}

void mlirValuePrint(MlirValue value, MlirStringCallback callback, void *data) {
  if (mlirValueIsABlockArgument(value) || isPrintable(ownerOf(value)))
    return ::mlirValuePrint(value, callback, data);
  GenericFlags generic;
  ::mlirOperationPrintWithFlags(ownerOf(value), generic.flags, callback, data);
}

void mlirValueDump(MlirValue value) {
  std::string text = print(checked::mlirValuePrint, value);
  std::fprintf(stderr, "%s\n", text.c_str());
}

MlirAsmState mlirAsmStateCreateForOperation(MlirOperation operation, MlirOpPrintingFlags flags) {
  if (!isPrintable(operation))
    mlirOpPrintingFlagsPrintGenericOpForm(flags);
  return ::mlirAsmStateCreateForOperation(operation, flags);
}

MlirAsmState mlirAsmStateCreateForValue(MlirValue value, MlirOpPrintingFlags flags) {
  MlirOperation owner = ownerOf(value);
  if (mlirOperationIsNull(owner))
    refuse("The value is a block argument of a block that is in no operation.");
  if (!isPrintable(owner))
    mlirOpPrintingFlagsPrintGenericOpForm(flags);
  return ::mlirAsmStateCreateForValue(value, flags);
}

/// The writer takes attributes that an operation has to have for granted.
static void requireComplete(MlirOperation operation) {
  std::string fault = findFault(operation, Use::Driver);
  if (!fault.empty())
    refuse(quotedName(operation) + " cannot be written as bytecode, since it is not valid: " + fault + ".");
}

void mlirOperationWriteBytecode(MlirOperation operation, MlirStringCallback callback, void *data) {
  requireUsesInside(operation, "written as bytecode");
  requireComplete(operation);
  ::mlirOperationWriteBytecode(operation, callback, data);
}

MlirLogicalResult mlirOperationWriteBytecodeWithConfig(MlirOperation operation, MlirBytecodeWriterConfig config,
                                                       MlirStringCallback callback, void *data) {
  requireUsesInside(operation, "written as bytecode");
  requireComplete(operation);
  return ::mlirOperationWriteBytecodeWithConfig(operation, config, callback, data);
}

MlirLlvmThreadPool mlirContextGetThreadPool(MlirContext context) {
  if (!unwrap(context)->isMultithreadingEnabled())
    refuse("This context has no thread pool: its multi-threading is disabled.");
  return ::mlirContextGetThreadPool(context);
}

// ---- Whatever runs.

/// Raises ValueError if something in the operation is not made as it has to be.
static void requireValid(MlirOperation operation, const char *act) {
  requireVerifiable(operation, act);
  std::string fault = findFault(operation, Use::Otherwise);
  if (!fault.empty())
    refuse(quotedName(operation) + " cannot be " + act + ", since it is not valid: " + fault + ".");
}

MlirLogicalResult mlirApplyPatternsAndFoldGreedily(MlirModule module, MlirFrozenRewritePatternSet patterns,
                                                   MlirGreedyRewriteDriverConfig config) {
  requireVerifiable(mlirModuleGetOperation(module), "rewritten");
  return ::mlirApplyPatternsAndFoldGreedily(module, patterns, config);
}

MlirLogicalResult mlirApplyPatternsAndFoldGreedilyWithOp(MlirOperation operation, MlirFrozenRewritePatternSet patterns,
                                                         MlirGreedyRewriteDriverConfig config) {
  if (mlirOperationGetNumRegions(operation) != 0 && !unwrap(operation)->hasTrait<mlir::OpTrait::IsIsolatedFromAbove>())
    refuse(quotedName(operation) + " is not isolated from above: the greedy driver works on operations that are, such as "
                                   "functions and modules.");
  requireVerifiable(operation, "rewritten");
  return ::mlirApplyPatternsAndFoldGreedilyWithOp(operation, patterns, config);
}

void mlirWalkAndApplyPatterns(MlirOperation operation, MlirFrozenRewritePatternSet patterns) {
  requireVerifiable(operation, "rewritten");
  ::mlirWalkAndApplyPatterns(operation, patterns);
}

/// The inliner asserts that it knows all symbol tables. An operation of no loaded dialect might be one.
static void requireKnownSymbolTables(MlirPassManager manager, MlirOperation operation) {
  std::string pipeline = print(mlirPrintPassPipeline, mlirPassManagerGetAsOpPassManager(manager));
  // As a whole word, such as in "builtin.module(cse,inline{max-iterations=4})".
  auto isPartOfWord = [&](std::size_t i) { return i < pipeline.size() && (std::isalnum(pipeline[i]) || pipeline[i] == '-'); };
  std::size_t found = pipeline.find("inline");
  while (found != std::string::npos && (isPartOfWord(found - 1) || isPartOfWord(found + 6)))
    found = pipeline.find("inline", found + 1);
  if (found == std::string::npos)
    return;
  mlir::Operation *unknown = nullptr;
  unwrap(operation)->walk([&](mlir::Operation *inner) {
    if (inner->getNumRegions() != 1 || inner->getDialect())
      return mlir::WalkResult::advance();
    unknown = inner;
    return mlir::WalkResult::interrupt();
  });
  if (unknown)
    refuse("The inliner cannot work on " + quotedName(operation) + ": " + quotedName(wrap(unknown)) +
           " in it has a region and is of no dialect that is loaded, so it might be a symbol table.");
}

MlirLogicalResult mlirPassManagerRunOnOp(MlirPassManager manager, MlirOperation operation) {
  requireContext(wrap(unwrap(manager)->getContext()), operation);
  requireVerifiable(operation, "worked on by passes");
  requireKnownSymbolTables(manager, operation);
  return ::mlirPassManagerRunOnOp(manager, operation);
}

MlirLogicalResult mlirTransformApplyNamedSequence(MlirOperation payload, MlirOperation root, MlirOperation module,
                                                  MlirTransformOptions options) {
  requireContext(mlirOperationGetContext(payload), root, module);
  requireVerifiable(payload, "transformed");
  requireVerifiable(root, "interpreted");
  requireValid(root, "interpreted");
  requireValid(module, "interpreted");
  return ::mlirTransformApplyNamedSequence(payload, root, module, options);
}

/// What MLIR makes a symbol table of: one block, and no two symbols of one name.
static void requireSymbolTable(MlirOperation operation) {
  mlir::Operation *op = unwrap(operation);
  if (!op->hasTrait<mlir::OpTrait::SymbolTable>() || op->getNumRegions() != 1 || !op->getRegion(0).hasOneBlock())
    refuse(quotedName(operation) + " is no symbol table.");
  llvm::StringSet<> names;
  for (mlir::Operation &symbol : op->getRegion(0).front())
    if (auto name = symbol.getAttrOfType<mlir::StringAttr>(mlir::SymbolTable::getSymbolAttrName()))
      if (!names.insert(name.getValue()).second)
        refuse("Two symbols of " + quotedName(operation) + " are called '" + name.getValue().str() + "'.");
}

MlirLogicalResult mlirMergeSymbolsIntoFromClone(MlirOperation target, MlirOperation other) {
  requireContext(mlirOperationGetContext(target), other);
  requireSymbolTable(target);
  requireSymbolTable(other);
  requireVerifiable(target, "merged into");
  requireVerifiable(other, "merged");
  requireValid(other, "merged");
  return ::mlirMergeSymbolsIntoFromClone(target, other);
}

namespace {
/// A shared library that is loaded meanwhile.
class Library {
public:
  explicit Library(const std::string &path) : handle(dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
    if (!handle)
      refuse("The shared library '" + path + "' cannot be loaded: " + dlerror() + ".");
  }
  Library(Library &&other) noexcept : handle(std::exchange(other.handle, nullptr)) {}
  ~Library() {
    if (handle)
      dlclose(handle);
  }

private:
  void *handle;
};
} // namespace

MlirExecutionEngine mlirExecutionEngineCreate(MlirModule module, int optLevel, int numPaths,
                                              const MlirStringRef *sharedLibPaths, bool enableObjectDump, bool enablePIC) {
  if (optLevel < 0 || optLevel > 3)
    refuse("The optimization level has to be between 0 and 3, not " + std::to_string(optLevel) + ".");
  MlirOperation operation = mlirModuleGetOperation(module);
  requireVerifiable(operation, "compiled");
  requireValid(operation, "compiled");
  // MLIR does not look at the error when a library cannot be loaded. One that is missing it only reports.
  std::vector<Library> libraries;
  for (int i = 0; i < numPaths; ++i)
    if (std::string path = textOf(sharedLibPaths[i]); llvm::sys::fs::exists(path))
      libraries.emplace_back(path);
  return ::mlirExecutionEngineCreate(module, optLevel, numPaths, sharedLibPaths, enableObjectDump, enablePIC);
}

char *mlirTranslateModuleToLLVMIRToString(MlirOperation module) {
  requireVerifiable(module, "translated");
  requireValid(module, "translated");
  // MLIR's own function prints what could not be made.
  LLVMContextRef context = LLVMContextCreate();
  char *text = nullptr;
  std::string error;
  {
    CaughtErrors errors(mlirOperationGetContext(module));
    if (LLVMModuleRef made = mlirTranslateModuleToLLVMIR(module, context)) {
      text = LLVMPrintModuleToString(made);
      LLVMDisposeModule(made);
    }
    error = errors.text;
  }
  LLVMContextDispose(context);
  if (!text)
    refuse(quotedName(module) + " cannot be translated to LLVM IR" + (error.empty() ? "." : ": " + error + "."));
  return text;
}

MlirLogicalResult mlirTranslateOperationToSMTLIB(MlirOperation operation, MlirStringCallback callback, void *data,
                                                 bool inlineSingleUseValues, bool indentLetBody) {
  if (!checked::mlirOperationVerify(operation))
    refuse(quotedName(operation) + " cannot be exported: it is not valid.");
  return ::mlirTranslateOperationToSMTLIB(operation, callback, data, inlineSingleUseValues, indentLetBody);
}

MlirLogicalResult mlirLoadIRDLDialects(MlirModule module) {
  MlirOperation operation = mlirModuleGetOperation(module);
  requireVerifiable(operation, "loaded");
  if (!::mlirOperationVerify(operation))
    refuse("The module of IRDL dialects is not valid.");
  MlirContext context = mlirModuleGetContext(module);
  llvm::StringSet<> names;
  unwrap(operation)->walk([&](mlir::Operation *op) {
    if (op->getName().getStringRef() != "irdl.dialect")
      return;
    auto name = op->getAttrOfType<mlir::StringAttr>(mlir::SymbolTable::getSymbolAttrName());
    if (name && (!names.insert(name.getValue()).second || unwrap(context)->getOrLoadDialect(name.getValue())))
      refuse("The context has a dialect '" + name.getValue().str() + "' already.");
  });
  return ::mlirLoadIRDLDialects(module);
}

void mlirLinalgFillBuiltinNamedOpRegion(MlirOperation operation) {
  std::string name = textOf(mlirIdentifierStr(mlirOperationGetName(operation)));
  bool isNamed = name.rfind("linalg.", 0) == 0 && name != "linalg.generic" && name != "linalg.map" &&
                 name != "linalg.reduce" && !mlirAttributeIsNull(::mlirLinalgGetIndexingMapsAttribute(operation));
  if (!isNamed || mlirOperationGetNumRegions(operation) != 1)
    refuse("'" + name + "' has no region that can be filled: only named operations of linalg have.");
  if (!mlirBlockIsNull(mlirRegionGetFirstBlock(mlirOperationGetRegion(operation, 0))))
    refuse("The region of '" + name + "' is filled already.");
  ::mlirLinalgFillBuiltinNamedOpRegion(operation);
}

MlirLinalgContractionDimensions mlirLinalgInferContractionDimensionsFromMaps(const MlirAffineMap *maps, std::size_t count) {
  ContextCheck check;
  std::for_each(maps, maps + count, [&](MlirAffineMap map) { check.addContext(mlirAffineMapGetContext(map)); });
  for (std::size_t i = 1; i < count && count == 3; ++i) // with other numbers of maps there is no contraction
    if (mlirAffineMapGetNumInputs(maps[i]) != mlirAffineMapGetNumInputs(maps[0]))
      refuse("The maps have different numbers of inputs.");
  return ::mlirLinalgInferContractionDimensionsFromMaps(maps, count);
}

// These take an operation for what its name says.

bool mlirLinalgIsAContractionOp(MlirOperation operation) {
  requireValid(operation, "looked at");
  return ::mlirLinalgIsAContractionOp(operation);
}

bool mlirLinalgIsAConvolutionOp(MlirOperation operation) {
  requireValid(operation, "looked at");
  return ::mlirLinalgIsAConvolutionOp(operation);
}

MlirLinalgContractionDimensions mlirLinalgInferContractionDimensions(MlirOperation operation) {
  requireValid(operation, "looked at");
  return ::mlirLinalgInferContractionDimensions(operation);
}

MlirLinalgConvolutionDimensions mlirLinalgInferConvolutionDimensions(MlirOperation operation) {
  requireValid(operation, "looked at");
  return ::mlirLinalgInferConvolutionDimensions(operation);
}

MlirAttribute mlirLinalgGetIndexingMapsAttribute(MlirOperation operation) {
  requireValid(operation, "looked at");
  return ::mlirLinalgGetIndexingMapsAttribute(operation);
}

} // namespace checked
} // namespace lot_python
