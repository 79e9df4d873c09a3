// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles, unless one of the cases is defined.

#include <array>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "lot/lot.hpp"

void useAncestors(lot::Ancestors ancestors);
bool moveObject(lot::Tracker tracker, const void *object);

bool moveObject(lot::Tracker tracker, const void *object) {
#if defined(CASE_STRING)
  std::string list = "text";
#elif defined(CASE_VECTOR_OF_INT)
  std::vector<int> list = {1, 2};
#elif defined(CASE_VECTOR_OF_CHAR)
  std::vector<char> list = {1, 2};
#elif defined(CASE_VECTOR_OF_ADDRESSES_AS_NUMBERS)
  std::vector<std::uintptr_t> list = {1, 2};
#elif defined(CASE_VECTOR_OF_FUNCTIONS)
  std::vector<void (*)()> list = {nullptr};
#elif defined(CASE_VECTOR_OF_SMART_POINTERS)
  std::vector<std::unique_ptr<int>> list(2);
#elif defined(CASE_VECTOR_OF_REFS)
  std::vector<lot::Ref> list(2);
#elif defined(CASE_ARRAY_OF_INT)
  std::array<int, 2> list = {1, 2};
#elif defined(CASE_C_ARRAY_OF_INT)
  int list[] = {1, 2};
#elif defined(CASE_TEXT)
  const char *list = "text";
#elif defined(CASE_SCATTERED)
  std::list<const void *> list = {object};
#elif defined(CASE_NUMBERS_AND_COUNT)
  int numbers[] = {1, 2};
  lot::Ancestors list(numbers, 2);
#elif defined(CASE_FUNCTIONS_AND_COUNT)
  void (*functions[])() = {nullptr};
  lot::Ancestors list(functions, 1);
#elif defined(CASE_LIST_OF_NUMBERS)
  std::initializer_list<std::uintptr_t> list = {1, 2};
#else
  std::vector<const void *> list = {object};
#endif
  return bool(tracker.move(object, list));
}
