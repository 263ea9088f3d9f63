package persistence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"
	"slices"
	"strconv"
	"strings"
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
	b := t.bucket(bucketReleased)
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
	c := t.bucket(bucketReleased).Cursor()
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
	if !t.writable {
		return nil
	}
	for _, k := range keys {
		if err := t.bucket(bucketReleased).Delete(k); err != nil {
			return fmt.Errorf("delete release: %w", err)
		}
	}
	return nil
}

// encodeLastHolder returns a record with a checksum of its key and its fields. The fields are text that zero bytes
// separate, because each verb is a process: the first use of encoding/json for a type costs 0.4 ms.
func encodeLastHolder(h reservation.LastHolder) []byte {
	ns := h.NetNS
	fields := key(h.ContainerID, ns.Path, h.BootID, strconv.FormatUint(ns.Dev, 10), strconv.FormatUint(ns.Inode, 10))
	return binary.BigEndian.AppendUint32(fields, chunkSum(lastHolderKey(h.Network, h.Address), fields))
}

// decodeLastHolder checks and decodes the record at a key.
func decodeLastHolder(k, data []byte) (h reservation.LastHolder, err error) {
	network, raw, _ := bytes.Cut(k, []byte{0})
	addr, ok := netip.AddrFromSlice(raw)
	n := max(len(data)-4, 0)
	fields := strings.Split(string(data[:n]), "\x00")
	if !ok || len(fields) != 5 || binary.BigEndian.Uint32(data[n:]) != chunkSum(k, data[:n]) {
		return h, fmt.Errorf("last holder %q of %x: %w", data, k, ErrDamaged)
	}
	dev, devErr := strconv.ParseUint(fields[3], 10, 64)
	inode, inodeErr := strconv.ParseUint(fields[4], 10, 64)
	if devErr != nil || inodeErr != nil {
		return h, fmt.Errorf("last holder of %s: %w: %w", addr, errors.Join(devErr, inodeErr), ErrDamaged)
	}
	return reservation.LastHolder{
		Network: string(network), Address: addr, ContainerID: fields[0],
		NetNS: reservation.NetNS{Path: fields[1], Dev: dev, Inode: inode}, BootID: fields[2],
	}, nil
}

func lastHolderKey(network string, a netip.Addr) []byte {
	return append(key(network, ""), a.AsSlice()...)
}

// LastHolder returns the network namespace of the last holder of a free address, if one was known.
func (t *Tx) LastHolder(network string, a netip.Addr) (r reservation.LastHolder, found bool, err error) {
	b := t.bucket(bucketLastHolders)
	k := lastHolderKey(network, a)
	data := b.Get(k)
	if data == nil {
		return r, false, nil
	}
	r, err = decodeLastHolder(k, data)
	return r, err == nil, err
}

// skipMost bounds how many last holders SomeLastHolders goes past.
const skipMost = 512

// SomeLastHolders returns the last holders of at most n free addresses of a network. The number spin chooses the first of
// them, so that callers with random numbers see all, whichever stay.
func (t *Tx) SomeLastHolders(network string, n int, spin uint64) ([]reservation.LastHolder, error) {
	b := t.bucket(bucketLastHolders)
	prefix := key(network, "")
	c := b.Cursor()
	count := uint64(0)
	for k, _ := c.Seek(prefix); count < skipMost && bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		count++
	}
	var some []reservation.LastHolder
	k, v := c.Seek(prefix)
	for i := uint64(0); count > uint64(n) && i < spin%count; i++ {
		k, v = c.Next()
	}
	for ; len(some) < n && bytes.HasPrefix(k, prefix); k, v = c.Next() {
		r, err := decodeLastHolder(k, v)
		if err != nil {
			return nil, err
		}
		some = append(some, r)
	}
	return some, nil
}

// ForgetLastHolders deletes the records of addresses, because they are held again or their namespaces are gone.
func (t *Tx) ForgetLastHolders(network string, addrs ...netip.Addr) error {
	b := t.bucket(bucketLastHolders)
	for _, a := range addrs {
		if err := b.Delete(lastHolderKey(network, a)); err != nil {
			return fmt.Errorf("forget last holder of %s: %w", a, err)
		}
	}
	return nil
}

// remember stores for each address the namespace of the holder that is deleted, if the namespace is known.
func (t *Tx) remember(last reservation.LastHolder, addrs []netip.Addr) error {
	if last.NetNS.Inode == 0 {
		return nil
	}
	for _, a := range addrs {
		last.Address = a
		err := t.bucket(bucketLastHolders).Put(lastHolderKey(last.Network, a), encodeLastHolder(last))
		if err != nil {
			return fmt.Errorf("remember last holder of %s: %w", a, err)
		}
	}
	return nil
}
