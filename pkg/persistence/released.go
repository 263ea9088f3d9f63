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
	// Kept are the addresses whose release delay is over, and which a pod with a UID may have again, also of earlier boots.
	Kept []netip.Addr
	// Own are the addresses that the pod in question had last, and no other pod since.
	Own []netip.Addr
}

// Lately reports whether an address was released lately.
func (r Released) Lately(a netip.Addr) bool {
	return slices.Contains(r.Delayed, a) || slices.Contains(r.Before, a)
}

// An entry of the bucket is a release of addresses of one network. Entries are short and have no checksum, because an ADD
// may read hundreds: eight bytes for the moment by CLOCK_BOOTTIME, eight for the delay, four for the boot, then each
// address with its length, a zero, the network, and the interface of the pod where its UID is known.
const releaseHead = 8 + 8 + 4

func encodeRelease(r reservation.Release, d reservation.Deadline) []byte {
	data := binary.BigEndian.AppendUint64(nil, uint64(d.From.Up))
	data = binary.BigEndian.AppendUint64(data, uint64(d.For))
	data = binary.BigEndian.AppendUint32(data, bootSum(d.From))
	for _, a := range r.Addresses {
		raw := a.AsSlice()
		data = append(append(data, byte(len(raw))), raw...)
	}
	data = append(append(data, 0), r.Network...)
	return append(data, lifeOf(r)...)
}

// lifeOf returns the bytes that name the interface of a pod; none where the UID is not known.
func lifeOf(r reservation.Release) []byte {
	if r.UID == "" {
		return nil
	}
	return key("", r.UID, r.IfName)
}

// bootSum returns four bytes that tell one boot from others.
func bootSum(m reservation.Moment) uint32 { return crc32.ChecksumIEEE([]byte(m.BootID)) }

// decodeRelease returns the network, the addresses and the bytes of the life of an entry; nothing of one that cannot be read.
func decodeRelease(entry []byte) (network string, addrs []netip.Addr, life []byte) {
	if len(entry) < releaseHead {
		return "", nil, nil
	}
	rest := entry[releaseHead:]
	for len(rest) > 0 && rest[0] > 0 {
		end := 1 + int(rest[0])
		a, ok := netip.AddrFromSlice(rest[1:min(end, len(rest))])
		if !ok {
			return "", nil, nil
		}
		addrs, rest = append(addrs, a), rest[end:]
	}
	if len(rest) == 0 {
		return "", nil, nil
	}
	name, _, lives := bytes.Cut(rest[1:], []byte{0})
	if lives {
		life = rest[1+len(name):]
	}
	return string(name), addrs, life
}

// PutReleased begins the release delay of addresses. Before the first ADD there is none. The entries are hints: an entry
// that cannot be read counts as none.
func (t *Tx) PutReleased(r reservation.Release, now reservation.Moment) error {
	usage, err := t.PoolUsage(r.Network)
	if err != nil || usage.Limits == nil {
		return err
	}
	d := reservation.Deadline{From: r.Until, For: usage.Limits.ReleaseDelay}
	if r.UID == "" && now.Since(r.Until) >= max(d.For, rememberReleased) {
		return nil
	}
	b := t.bucket(bucketReleased)
	n, err := b.nextSequence()
	if err != nil {
		return fmt.Errorf("number release: %w", err)
	}
	err = b.put(binary.BigEndian.AppendUint64(nil, n), encodeRelease(r, d))
	c := b.cursor()
	for k, _ := c.first(); err == nil && len(k) == 8 && binary.BigEndian.Uint64(k)+maxReleased <= n; k, _ = c.first() {
		err = b.delete(k)
	}
	return err
}

// Released returns the addresses of a network that were released lately, for a pod: only UID and IfName of it count. A
// reboot ends delay and memory, because the kernel has forgotten the owners too, but not what a pod had. In a read-write
// transaction the entries of all networks that are over are deleted.
func (t *Tx) Released(network string, pod reservation.Release, now reservation.Moment) (r Released, err error) {
	var over [][]byte
	boot, own := bootSum(now), lifeOf(pod)
	c := t.bucket(bucketReleased).cursor()
	for k, v := c.first(); k != nil; k, v = c.next() {
		of, addrs, life := decodeRelease(v)
		if of == "" {
			over = append(over, k)
			continue
		}
		switch {
		case of != network:
			addrs = nil
		case own != nil && bytes.Equal(life, own):
			r.Own = addrs
		default:
			r.Own = slices.DeleteFunc(r.Own, func(a netip.Addr) bool { return slices.Contains(addrs, a) })
		}
		ago, delay := now.Up-time.Duration(binary.BigEndian.Uint64(v)), time.Duration(binary.BigEndian.Uint64(v[8:]))
		if binary.BigEndian.Uint32(v[16:]) != boot {
			ago = max(delay, rememberReleased)
		}
		switch {
		case ago < delay:
			r.Delayed = append(r.Delayed, addrs...)
			continue
		case ago < rememberReleased:
			r.Before = append(r.Before, addrs...)
		case life == nil:
			over = append(over, k)
		}
		if life != nil {
			r.Kept = append(r.Kept, addrs...)
		}
	}
	if t.writable {
		for _, k := range over {
			err = errors.Join(err, t.bucket(bucketReleased).delete(k))
		}
	}
	return r, err
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
	data := b.get(k)
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
	c := b.cursor()
	count := uint64(0)
	for k, _ := c.seek(prefix); count < skipMost && bytes.HasPrefix(k, prefix); k, _ = c.next() {
		count++
	}
	var some []reservation.LastHolder
	k, v := c.seek(prefix)
	for i := uint64(0); count > uint64(n) && i < spin%count; i++ {
		k, v = c.next()
	}
	for ; len(some) < n && bytes.HasPrefix(k, prefix); k, v = c.next() {
		r, err := decodeLastHolder(k, v)
		if err != nil {
			return nil, err
		}
		some = append(some, r)
	}
	return some, nil
}

// ForgetLastHolders deletes the records of addresses, because they are held again or their namespaces are gone.
func (t *Tx) ForgetLastHolders(network string, addrs ...netip.Addr) (err error) {
	for _, a := range addrs {
		err = errors.Join(err, t.bucket(bucketLastHolders).delete(lastHolderKey(network, a)))
	}
	return err
}

// remember stores for each address the namespace of the holder that is deleted, if the namespace is known.
func (t *Tx) remember(last reservation.LastHolder, addrs []netip.Addr) (err error) {
	if last.NetNS.Inode == 0 {
		return nil
	}
	for _, last.Address = range addrs {
		err = errors.Join(err, t.bucket(bucketLastHolders).put(lastHolderKey(last.Network, last.Address), encodeLastHolder(last)))
	}
	return err
}
