package persistence

import (
	"bytes"
	"fmt"
	"maps"
	"math/bits"
	"net/netip"
	"slices"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// comparison compares the indexes and counts of a state with its records. It reads one record after the other, looks
// each up in the indexes, and keeps the bitmaps of addresses, numbers, and the faults.
type comparison struct {
	r    *Report
	t    *Tx
	see  func(Record)
	last uint64 // sequence number given out
	file *mapped

	held   map[string]chunk // the address index that the records imply
	shared map[string]bool  // addresses that a second record holds

	indexedOwners int      // entries of the index by pod that have their attachment
	missingOwners []string // entries that the index by pod lacks
	order         orderComparison
}

func newComparison(r *Report, t *Tx, see func(Record)) *comparison {
	if see == nil {
		see = func(Record) {}
	}
	return &comparison{
		r: r, t: t, see: see, last: t.bucket(bucketMeta).Sequence(), file: mapOf(t.base), held: map[string]chunk{}, shared: map[string]bool{},
		order: newOrderComparison(t),
	}
}

// readRecords reads all records, and reports the ones that cannot be used.
func (c *comparison) readRecords() {
	c.eachRecord(func(record Record) {
		if a := record.Attachment; a != nil {
			c.r.Attachments++
			c.lookUpOwner(*a)
		} else {
			c.r.Reservations++
			c.order.lookUp(*record.Reservation)
		}
		c.hold(record.Network(), record.Addresses())
		c.see(record)
	}, func(bucket, k []byte, err error) {
		c.r.fault(FaultRecord, fmt.Sprintf("%s %s", bucket, readable(k)), err.Error())
	})
}

// eachRecord reads all records, and calls one function with the sound ones and the other one with faults.
func (c *comparison) eachRecord(sound func(Record), faulty func(bucket, k []byte, err error)) {
	for _, bucket := range recordBuckets {
		_ = c.t.bucket(bucket.name).ForEach(func(k, v []byte) error { // the function returns no error
			c.file.touch(4) // of the record and of indexes
			record, err := bucket.decode(k, v)
			if err == nil {
				sound(record)
				if seq := record.seq(); seq > c.last {
					err = fmt.Errorf("has the sequence number %d, and the last one given out is %d", seq, c.last)
				}
			}
			if err != nil {
				faulty(bucket.name, k, err)
			}
			return nil
		})
	}
}

// hold notes the addresses of a record. Only so many shared addresses are noted as a report can name.
func (c *comparison) hold(network string, addrs []netip.Addr) {
	for _, a := range addrs {
		k, at := chunkKey(network, a)
		bitmap := c.held[string(k)]
		if bitmap.has(at) && len(c.shared) < mostFaults {
			c.shared[network+" "+a.String()] = true
		}
		bitmap[at/8] |= 1 << (at % 8)
		c.held[string(k)] = bitmap
	}
}

// nameHolders reports the addresses with two holders. Only if there are any it reads the records again.
func (c *comparison) nameHolders() {
	if len(c.shared) == 0 {
		return
	}
	holder := map[string]string{}
	c.eachRecord(func(record Record) {
		who := record.holder()
		for _, a := range record.Addresses() {
			name := record.Network() + " " + a.String()
			if !c.shared[name] {
				continue
			}
			if other, taken := holder[name]; taken {
				c.r.fault(FaultHolders, name, fmt.Sprintf("is held by %s and by %s", other, who))
			}
			holder[name] = who
		}
	}, func([]byte, []byte, error) {}) // was reported
}

// compareHeld compares the address index of the file with the index that the records imply.
func (c *comparison) compareHeld() {
	_ = c.t.bucket(bucketHeld).ForEach(func(k, v []byte) error { // the function returns no error
		got, err := openChunk(k, v)
		if err != nil {
			c.r.fault(FaultIndex, readable(k), err.Error())
		} else {
			c.r.compareChunk(k, got, c.held[string(k)])
		}
		delete(c.held, string(k))
		return nil
	})
	for _, k := range slices.Sorted(maps.Keys(c.held)) {
		c.r.compareChunk([]byte(k), chunk{}, c.held[k])
	}
}

// compareChunk reports each address in which two bitmaps differ.
func (r *Report) compareChunk(k []byte, got, want chunk) {
	network, raw, _ := bytes.Cut(k, []byte{0})
	first, ok := netip.AddrFromSlice(raw)
	for i := range got {
		for diff := got[i] ^ want[i]; diff != 0 && ok; diff &= diff - 1 {
			at := byte(i*8 + bits.TrailingZeros8(diff))
			problem := "is marked as held, but no readable record holds it: it is never handed out"
			if want.has(at) {
				problem = "is held, but marked as free: it can be handed out twice"
			}
			r.fault(FaultIndex, fmt.Sprintf("%s %s", network, inChunk(first, at)), problem)
		}
	}
	if !ok {
		r.fault(FaultIndex, readable(k), "is not the key of a bitmap")
	}
}

// lookUpOwner looks an attachment up in the index of attachments by pod.
func (c *comparison) lookUpOwner(a reservation.Attachment) {
	if !a.Owner.Named() {
		return
	}
	k := indexKey(a)
	if got, _ := c.t.bucket(bucketOwners).Cursor().Seek(k); bytes.Equal(got, k) {
		c.indexedOwners++
	} else if len(c.missingOwners) < mostFaults {
		c.missingOwners = append(c.missingOwners, string(k))
	} else {
		c.r.More++
	}
}

// compareOwners compares the index of attachments by pod with the attachments. It looks for entries without an attachment
// only if there are more entries than attachments.
func (c *comparison) compareOwners() {
	b := c.t.bucket(bucketOwners)
	if keys(b, c.file) > c.indexedOwners {
		_ = b.ForEach(func(k, _ []byte) error { // the function returns no error
			c.file.touch(2)
			if !c.indexed(k) {
				c.r.fault(FaultIndex, readable(k), "is in the index of attachments by pod, but is no attachment")
			}
			return nil
		})
	}
	slices.Sort(c.missingOwners)
	for _, k := range c.missingOwners {
		c.r.fault(FaultIndex, readable([]byte(k)), "is an attachment, but is missing in the index of attachments by pod")
	}
}

// indexed reports whether a key of the index of attachments by pod is that of an attachment.
func (c *comparison) indexed(k []byte) bool {
	names := bytes.Split(k, []byte{0})
	if len(names) != 5 { // network, namespace, pod, interface, container
		return false
	}
	id := attachmentKey(reservation.AttachmentID{Network: string(names[0]), ContainerID: string(names[4]), IfName: string(names[3])})
	a, err := attachmentAt(id, c.t.bucket(bucketAttachments).Get(id))
	return err == nil && a.Owner.Named() && bytes.Equal(indexKey(a), k)
}

// compareCounts compares the counts of reservations with the reservations.
func (c *comparison) compareCounts() {
	for network, n := range reservedIn(c.t) {
		p, err := c.t.PoolUsage(network)
		if err == nil && p.Reserved != n {
			err = fmt.Errorf("are %d, but the counter says %d", n, p.Reserved)
		}
		if err != nil {
			c.r.fault(FaultIndex, "reservations of "+network, err.Error())
		}
	}
}

// keys counts the entries of a bucket.
func keys(b *bucket, file *mapped) (n int) {
	_ = b.ForEach(func([]byte, []byte) error { n++; file.touch(1); return nil }) // the function returns no error
	return n
}
