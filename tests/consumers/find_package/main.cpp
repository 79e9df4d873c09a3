// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A document of nested sections that frees what it likes, and a script side that holds on to sections.
#include <cstdio>
#include <list>
#include <vector>

#include <lot/lot.hpp>

namespace {

lot::OwnedTracker tracker("document");

struct Section {
  explicit Section(Section *parent) : parent(parent) {}
  ~Section() { tracker.destroyed(this).ignore(); }
  Section *add() { return &children.emplace_back(this); }

  Section *parent;
  std::list<Section> children;
};

// What the script side keeps instead of a pointer.
lot::Ref handleOf(const Section *section) {
  std::vector<const void *> ancestors;
  for (const Section *outer = section->parent; outer; outer = outer->parent)
    ancestors.push_back(outer);
  lot::Ref ref;
  lot::Status status = tracker.track(section, 1, 0, ancestors, nullptr, ref);
  if (!status)
    std::printf("%s: %s\n", status.name(), lot::Status::message());
  return ref;
}

bool expect(bool holds, const char *what) {
  if (!holds)
    std::printf("failed: %s\n", what);
  return holds;
}

} // namespace

int main() {
  Section document(nullptr);
  Section *chapter = document.add();
  Section *paragraph = chapter->add();
  lot::Ref whole = handleOf(&document), part = handleOf(chapter), leaf = handleOf(paragraph);
  bool fine = expect(whole.isLive() && part.isLive() && leaf.isLive(), "all live at first");
  fine &= expect(leaf.parent() == part && part.parent() == whole, "the tree is known");

  document.children.clear();
  fine &= expect(whole.isLive() && !part.isLive() && !leaf.isLive(), "the removed ones are dead");

  lot_death death = {};
  fine &= expect(static_cast<bool>(part.death(death)), "a death is on record");
  std::printf("%s, %s: %s\n", lot_version_string(), fine ? "fine" : "WRONG",
              lot_cause_name(death.cause));
  return fine ? 0 : 1;
}
