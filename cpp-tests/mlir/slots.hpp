// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table slots for the watched functions of MLIR in every loaded object, and the protection of their pages: read
// by code of its own, so that it can tell whether the hooks were taken back.
#ifndef LOT_CPP_TESTS_SLOTS_HPP
#define LOT_CPP_TESTS_SLOTS_HPP

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace slots {

struct Slot {
  std::string object, symbol;
  std::uintptr_t value;
  std::string protection;
  bool operator==(const Slot &other) const {
    return object == other.object && symbol == other.symbol && value == other.value &&
           protection == other.protection;
  }
};

constexpr const char *watched[] = {
    "_ZN4mlir9Operation5eraseEv",
    "_ZN4mlir9Operation7destroyEv",
    "_ZN4llvm12ilist_traitsIN4mlir9OperationEE10deleteNodeEPS2_",
    "_ZN4mlir5BlockD1Ev",
    "_ZN4mlir5BlockD2Ev",
    "_ZN4mlir5Block5eraseEv",
    "_ZN4mlir5Block13eraseArgumentEj",
    "_ZN4mlir5Block14eraseArgumentsEjj",
    "_ZN4mlir5Block14eraseArgumentsERKN4llvm9BitVectorE",
    "_ZN4mlir5Block14eraseArgumentsEN4llvm12function_refIFbNS_13BlockArgumentEEEE",
};

inline bool isWatched(const char *name) {
  for (const char *each : watched)
    if (std::strcmp(each, name) == 0)
      return true;
  return false;
}

using Slots = std::map<std::uintptr_t, Slot>;

inline std::string protectionOf(std::uintptr_t address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t start, end;
    char dash;
    std::string protection;
    std::istringstream(line) >> std::hex >> start >> dash >> end >> protection;
    if (start <= address && address < end)
      return protection;
  }
  return "unmapped";
}

inline Slots read() {
  Slots found;
  dl_iterate_phdr(
      [](dl_phdr_info *info, std::size_t, void *data) {
        const ElfW(Dyn) *dynamic = nullptr;
        for (int i = 0; i < info->dlpi_phnum; ++i)
          if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = reinterpret_cast<const ElfW(Dyn) *>(info->dlpi_addr +
                                                          info->dlpi_phdr[i].p_vaddr);
        // The kernel's own object is not relocated, and refers to nothing.
        if (!dynamic || std::strstr(info->dlpi_name, "vdso"))
          return 0;
        const ElfW(Sym) *symbols = nullptr;
        const char *strings = nullptr;
        const ElfW(Rela) *tables[2] = {};
        std::size_t bytes[2] = {};
        for (; dynamic->d_tag != DT_NULL; ++dynamic) {
          ElfW(Addr) value = dynamic->d_un.d_ptr;
          switch (dynamic->d_tag) {
          case DT_SYMTAB: symbols = reinterpret_cast<const ElfW(Sym) *>(value); break;
          case DT_STRTAB: strings = reinterpret_cast<const char *>(value); break;
          case DT_RELA: tables[0] = reinterpret_cast<const ElfW(Rela) *>(value); break;
          case DT_RELASZ: bytes[0] = value; break;
          case DT_JMPREL: tables[1] = reinterpret_cast<const ElfW(Rela) *>(value); break;
          case DT_PLTRELSZ: bytes[1] = value; break;
          }
        }
        for (int t = 0; t < 2; ++t)
          for (std::size_t i = 0; i < bytes[t] / sizeof(ElfW(Rela)); ++i) {
            const ElfW(Rela) &relocation = tables[t][i];
            const char *name = strings + symbols[ELF64_R_SYM(relocation.r_info)].st_name;
            if (!isWatched(name))
              continue;
            std::uintptr_t address = info->dlpi_addr + relocation.r_offset;
            (*static_cast<Slots *>(data))[address] = {
                info->dlpi_name, name, *reinterpret_cast<const std::uintptr_t *>(address), ""};
          }
        return 0;
      },
      &found);
  // Once a page.
  std::map<std::uintptr_t, std::string> pages;
  for (auto &[address, slot] : found) {
    std::string &protection = pages[address >> 12];
    if (protection.empty())
      protection = protectionOf(address);
    slot.protection = protection;
  }
  return found;
}

/// How many of `before` hold something else in `after`.
inline std::size_t changed(const Slots &before, const Slots &after) {
  std::size_t count = 0;
  for (const auto &[address, slot] : before) {
    auto found = after.find(address);
    count += found != after.end() && found->second.value != slot.value;
  }
  return count;
}

} // namespace slots

#endif
