package persistence

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"
	"net/netip"
	"slices"

	"github.com/limpet-io/limpet/pkg/reservation"
)

const chunkSize = 256

// chunk is a bitmap of 256 consecutive addresses, lowest bit first. A set bit is an address that is attached or reserved.
type chunk [chunkSize / 8]byte

func (c *chunk) has(i byte) bool { return c[i/8]&(1<<(i%8)) != 0 }
func (c *chunk) flip(i byte)     { c[i/8] ^= 1 << (i % 8) }

// firstClear returns the lowest clear bit within [from, to].
func (c *chunk) firstClear(from, to byte) (byte, bool) {
	for i := int(from); i <= int(to); {
		free := ^c[i/8] >> (i % 8) << (i % 8)
		if free == 0 {
			i = (i/8 + 1) * 8
			continue
		}
		i = i/8*8 + bits.TrailingZeros8(free)
		return byte(i), i <= int(to)
	}
	return 0, false
}

// chunkKey returns the key of the chunk of an address, and the position of the address in the chunk.
func chunkKey(network string, a netip.Addr) (k []byte, at byte) {
	raw := a.AsSlice()
	at, raw[len(raw)-1] = raw[len(raw)-1], 0
	return append(key(network, ""), raw...), at
}

// sealChunk returns a chunk as it is stored: with a checksum of the key and the bitmap.
func sealChunk(k []byte, c chunk) []byte {
	return binary.BigEndian.AppendUint32(slices.Clone(c[:]), chunkSum(k, c[:]))
}

// chunkSum returns the checksum of a key and a bitmap.
func chunkSum(k, bits []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE(k), crc32.IEEETable, bits)
}

// openChunk checks and decodes a stored chunk.
func openChunk(k, data []byte) (c chunk, err error) {
	n := copy(c[:], data)
	if len(data) != len(c)+4 || binary.BigEndian.Uint32(data[n:]) != chunkSum(k, data[:n]) {
		return c, fmt.Errorf("bitmap %x of %x: %w", data, k, ErrDamaged)
	}
	return c, nil
}

// readChunk returns the chunk at a key. Without a chunk all its addresses are free.
func readChunk(b *bucket, k []byte) (c chunk, err error) {
	if data := b.get(k); data != nil {
		c, err = openChunk(k, data)
	}
	return c, err
}

// Held reports whether an address is attached or reserved.
func (t *Tx) Held(network string, a netip.Addr) (bool, error) {
	k, at := chunkKey(network, a)
	c, err := readChunk(t.bucket(bucketHeld), k)
	return c.has(at), err
}

// hold sets the bits of addresses; all of them must be clear.
func (t *Tx) hold(network string, addrs []netip.Addr) error {
	if err := t.ForgetLastHolders(network, addrs...); err != nil {
		return err
	}
	return t.flip(network, addrs, false, func(a netip.Addr) error {
		return fmt.Errorf("hold %s: %w", a, reservation.ErrHeld)
	})
}

// release clears the bits of addresses; all of them must be set.
func (t *Tx) release(network string, addrs []netip.Addr) error {
	return t.flip(network, addrs, true, func(a netip.Addr) error {
		return fmt.Errorf("release %s: it is not held: %w", a, ErrDamaged)
	})
}

// flip changes the bits of addresses, all of which must have the wanted value.
func (t *Tx) flip(network string, addrs []netip.Addr, want bool, wrong func(netip.Addr) error) error {
	b := t.bucket(bucketHeld)
	for _, a := range addrs {
		k, at := chunkKey(network, a)
		c, err := readChunk(b, k)
		if err != nil {
			return err
		}
		if c.has(at) != want {
			return wrong(a)
		}
		c.flip(at)
		if c == (chunk{}) {
			err = b.delete(k)
		} else {
			err = b.put(k, sealChunk(k, c))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Free returns a view of the free addresses of a network.
func (t *Tx) Free(network string) FreeView { return FreeView{t, network} }

// FreeView tells which addresses of a network are neither attached nor reserved.
type FreeView struct {
	tx      *Tx
	network string
}

// FirstFree returns the lowest free address within [from, to]. The cost is one look-up per 256 held addresses.
func (v FreeView) FirstFree(from, to netip.Addr) (netip.Addr, bool, error) {
	b := v.tx.bucket(bucketHeld)
	last, lastAt := chunkKey(v.network, to)
	for {
		k, at := chunkKey(v.network, from)
		c, err := readChunk(b, k)
		if err != nil {
			return netip.Addr{}, false, err
		}
		end := byte(chunkSize - 1)
		if string(k) == string(last) {
			end = lastAt
		}
		if i, ok := c.firstClear(at, end); ok {
			return inChunk(from, i), true, nil
		}
		if string(k) == string(last) {
			return netip.Addr{}, false, nil
		}
		from = inChunk(from, chunkSize-1).Next()
	}
}

// inChunk returns the address at position i of the chunk of a.
func inChunk(a netip.Addr, i byte) netip.Addr {
	raw := a.AsSlice()
	raw[len(raw)-1] = i
	b, _ := netip.AddrFromSlice(raw) // as long as a, which is valid
	return b
}
