package persistence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// bucketLastHolders maps a network and a free address to a record. Files of earlier versions do not have the bucket.
// An address that is held has no record: hold deletes the record, and the deletion of the holder writes a new one.
var bucketLastHolders = []byte("lastholders")

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
	b := t.tx.Bucket(bucketLastHolders)
	if b == nil {
		return r, false, nil
	}
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
	b := t.tx.Bucket(bucketLastHolders)
	if b == nil {
		return nil, nil
	}
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
	b := t.tx.Bucket(bucketLastHolders)
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
		err := t.tx.Bucket(bucketLastHolders).Put(lastHolderKey(last.Network, a), encodeLastHolder(last))
		if err != nil {
			return fmt.Errorf("remember last holder of %s: %w", a, err)
		}
	}
	return nil
}
