package persistence

import (
	"bytes"
	"encoding/binary"
	"sort"
	"unsafe"
)

// ByAddress calls fn with each record, in the order of networks and first addresses; only with those of one network
// unless its name is "". Before that it calls first with each record, in no order: a table learns its widths. ByAddress
// keeps 32 bytes of each record, which say where the record is.
func (t *Tx) ByAddress(network string, first, fn func(Record) error) error {
	all, err := t.addressEntries(network, first)
	if err != nil {
		return err
	}
	sort.Sort(all)
	file := mapOf(t.base)
	for i := range all {
		file.touch()
		record, err := all[i].record()
		if err == nil {
			err = fn(record)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addressEntries calls fn with each record of a network, or of all, and returns where the records are.
func (t *Tx) addressEntries(network string, fn func(Record) error) (addressEntries, error) {
	file := mapOf(t.base)
	count := keys(t.bucket(bucketAttachments), file) + keys(t.bucket(bucketReservations), file)
	all := make(addressEntries, 0, count) // grown, it would take twice as much
	for n, name := range t.recordNetworks() {
		if network != "" && name != network {
			continue
		}
		for _, bucket := range recordBuckets {
			c := t.bucket(bucket.name).Cursor()
			prefix := key(name, "")
			for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = c.Next() {
				file.touch()
				record, err := bucket.decode(k, v)
				if err == nil {
					err = fn(record)
				}
				if err != nil {
					return nil, err
				}
				all = append(all, entryOf(record, n, v))
			}
		}
	}
	return all, nil
}

// recordBuckets are the buckets of records, and functions that decode a record at its own key.
var recordBuckets = []struct {
	name   []byte
	decode func(k, v []byte) (Record, error)
}{
	{bucketAttachments, func(k, v []byte) (Record, error) {
		a, err := attachmentAt(k, v)
		return Record{Attachment: &a}, err
	}},
	{bucketReservations, func(k, v []byte) (Record, error) {
		r, err := reservationAt(k, v)
		return Record{Reservation: &r}, err
	}},
}

// addressEntry is the place of a record, and what decides about the order. It has no byte too many: a /12 has a million.
type addressEntry struct {
	group     uint32 // number of the network, and 1 for an IPv6 address
	length    uint32 // of the record, and 1 for a reservation
	high, low uint64 // of the address
	value     *byte  // of the record, in the memory map of the file
}

func entryOf(record Record, network int, value []byte) addressEntry {
	e := addressEntry{group: uint32(network) << 1, length: uint32(len(value)) << 1, value: unsafe.SliceData(value)}
	if record.Reservation != nil {
		e.length |= 1
	}
	if addrs := record.Addresses(); len(addrs) > 0 {
		raw := addrs[0].As16()
		e.high, e.low = binary.BigEndian.Uint64(raw[:]), binary.BigEndian.Uint64(raw[8:])
		if addrs[0].BitLen() > 32 {
			e.group |= 1
		}
	}
	return e
}

// record decodes the record again.
func (e *addressEntry) record() (record Record, err error) {
	value := unsafe.Slice(e.value, e.length>>1)
	if e.length&1 == 1 {
		r, err := decodeReservation(value)
		return Record{Reservation: &r}, err
	}
	a, err := decodeAttachment(value)
	return Record{Attachment: &a}, err
}

// addressEntries are sorted by network and address.
type addressEntries []addressEntry

// Len returns the number of entries.
func (e addressEntries) Len() int { return len(e) }

// Swap swaps two entries.
func (e addressEntries) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Less reports whether an entry comes before another.
func (e addressEntries) Less(i, j int) bool {
	a, b := &e[i], &e[j]
	switch {
	case a.group != b.group:
		return a.group < b.group
	case a.high != b.high:
		return a.high < b.high
	}
	return a.low < b.low
}

// keys counts the entries of a bucket.
func keys(b *bucket, file *mapped) (n int) {
	_ = b.ForEach(func([]byte, []byte) error { n++; file.touch(); return nil }) // the function returns no error
	return n
}
