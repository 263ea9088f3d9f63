package salvage

// bitset is a set of page numbers: one bit for each page of the file.
type bitset []uint64

func newBitset(pages uint64) bitset { return make(bitset, (pages+63)/64) }

func (b bitset) has(id uint64) bool { return b[id/64]&(1<<(id%64)) != 0 }

func (b bitset) add(id uint64) { b[id/64] |= 1 << (id % 64) }
