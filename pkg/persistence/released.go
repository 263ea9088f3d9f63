package persistence

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/netip"
	"slices"
	"time"

	"github.com/limpet-io/limpet/pkg/reservation"
)

const (
	// maxReleased is the number of releases that are stored. Beyond it the oldest is forgotten: a node that releases
	// more addresses within the delay has a pool in which the order of trial alone takes as long.
	maxReleased = 256
	// rememberReleased is how long releases are stored at least. What the kernel remembers of an owner mostly is gone by
	// then.
	rememberReleased = 10 * time.Minute
)

// Released are the addresses of a network that were released lately. They may have new holders. An address that was
// released twice is there twice.
type Released struct {
	// Delayed are the addresses whose release delay is not over, the earliest released first.
	Delayed []netip.Addr
	// Before are the addresses whose release delay is over.
	Before []netip.Addr
}

// Lately reports whether an address was released lately.
func (r Released) Lately(a netip.Addr) bool {
	return slices.Contains(r.Delayed, a) || slices.Contains(r.Before, a)
}

// An entry of the bucket is a release of addresses of one network. Entries are short and have no checksum, because an ADD
// may read hundreds: eight bytes for the moment by CLOCK_BOOTTIME, eight for the delay, four for the boot, then each
// address with its length, a zero, and the network.
const releaseHead = 8 + 8 + 4

func encodeRelease(network string, addrs []netip.Addr, d reservation.Deadline) []byte {
	data := binary.BigEndian.AppendUint64(nil, uint64(d.From.Up))
	data = binary.BigEndian.AppendUint64(data, uint64(d.For))
	data = binary.BigEndian.AppendUint32(data, bootSum(d.From))
	for _, a := range addrs {
		raw := a.AsSlice()
		data = append(append(data, byte(len(raw))), raw...)
	}
	return append(append(data, 0), network...)
}

// bootSum returns four bytes that tell one boot from others.
func bootSum(m reservation.Moment) uint32 { return crc32.ChecksumIEEE([]byte(m.BootID)) }

// appendReleased appends the addresses of an entry, if the entry is of the network and can be read.
func appendReleased(to []netip.Addr, entry []byte, network string) []netip.Addr {
	was, rest := len(to), entry[releaseHead:]
	for len(rest) > 0 && rest[0] > 0 {
		end := 1 + int(rest[0])
		a, ok := netip.AddrFromSlice(rest[1:min(end, len(rest))])
		if !ok {
			return to[:was]
		}
		to, rest = append(to, a), rest[end:]
	}
	if len(rest) == 0 || string(rest[1:]) != network {
		return to[:was]
	}
	return to
}

// PutReleased begins the release delay of addresses that a pod used until a moment. Before the first ADD there is none.
// The entries are hints: an entry that cannot be read counts as none.
func (t *Tx) PutReleased(network string, addrs []netip.Addr, until, now reservation.Moment) error {
	usage, err := t.PoolUsage(network)
	if err != nil || usage.Limits == nil {
		return err
	}
	d := reservation.Deadline{From: until, For: usage.Limits.ReleaseDelay}
	if now.Since(until) >= max(d.For, rememberReleased) {
		return nil
	}
	b := t.tx.Bucket(bucketReleased)
	n, err := b.NextSequence()
	if err != nil {
		return fmt.Errorf("number release: %w", err)
	}
	if err := b.Put(binary.BigEndian.AppendUint64(nil, n), encodeRelease(network, addrs, d)); err != nil {
		return fmt.Errorf("put release: %w", err)
	}
	c := b.Cursor()
	for k, _ := c.First(); len(k) == 8 && binary.BigEndian.Uint64(k)+maxReleased <= n; k, _ = c.First() {
		if err := b.Delete(k); err != nil {
			return fmt.Errorf("delete release: %w", err)
		}
	}
	return nil
}

// Released returns the addresses of a network that were released lately. A reboot ends delay and memory, because the
// kernel has forgotten the owners too. In a read-write transaction the entries of all networks that are over are deleted.
func (t *Tx) Released(network string, now reservation.Moment) (r Released, err error) {
	var over [][]byte
	boot := bootSum(now)
	c := t.tx.Bucket(bucketReleased).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if len(v) < releaseHead || binary.BigEndian.Uint32(v[16:]) != boot {
			over = append(over, k)
			continue
		}
		ago, delay := now.Up-time.Duration(binary.BigEndian.Uint64(v)), time.Duration(binary.BigEndian.Uint64(v[8:]))
		switch {
		case ago < delay:
			r.Delayed = appendReleased(r.Delayed, v, network)
		case ago < rememberReleased:
			r.Before = appendReleased(r.Before, v, network)
		default:
			over = append(over, k)
		}
	}
	return r, t.forgetReleased(over)
}

// forgetReleased deletes entries.
func (t *Tx) forgetReleased(keys [][]byte) error {
	if !t.tx.Writable() {
		return nil
	}
	for _, k := range keys {
		if err := t.tx.Bucket(bucketReleased).Delete(k); err != nil {
			return fmt.Errorf("delete release: %w", err)
		}
	}
	return nil
}
