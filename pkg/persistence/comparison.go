package persistence

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"maps"
	"math/bits"
	"net/netip"
	"slices"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// comparison compares the indexes and counts of a state with its records. It reads one record after the other,
// adds what it implies to tallies of the indexes, and keeps the bitmaps of addresses, the tallies, and the faults.
type comparison struct {
	r    *Report
	t    *Tx
	see  func(Record)
	last uint64 // sequence number given out

	held   map[string]*chunk // the address index that the records imply
	shared map[string]bool   // addresses that a second record holds

	owners, order tally             // of the index of attachments by pod, and of the order of reservations
	inNS          map[string]uint64 // reservations by key of their namespace
	guests        map[string]int64  // reservations of guests by network, which no count has
}

func newComparison(r *Report, t *Tx, see func(Record)) *comparison {
	if see == nil {
		see = func(Record) {}
	}
	return &comparison{
		r: r, t: t, see: see, last: t.bucket(bucketMeta).sequence(), held: map[string]*chunk{}, shared: map[string]bool{},
		inNS: map[string]uint64{}, guests: map[string]int64{},
	}
}

// readRecords reads all records, and reports the ones that cannot be used.
func (c *comparison) readRecords() {
	c.eachRecord(func(record Record) {
		if a := record.Attachment; a != nil {
			c.r.Attachments++
			if a.Owner.Named() {
				c.owners.add(indexKey(*a), nil)
			}
		} else {
			c.r.Reservations++
			c.countOrdered(*record.Reservation)
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
		read := bucket.reader()
		_ = c.t.bucket(bucket.name).forEach(func(k, v []byte) error { // the function returns no error
			record, err := read(k, v)
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

// countOrdered counts the entries that a reservation has in the order.
func (c *comparison) countOrdered(r reservation.Reservation) {
	if r.Guest != 0 {
		c.guests[r.Owner.Network]++
		return
	}
	end, age, value := orderEntries(r)
	c.order.add(end, value)
	c.order.add(age, value)
	c.inNS[string(orderKey(r.Owner.Network, ofNS, r.Owner.Namespace))]++
}

// compareIndexes compares the indexes of attachments by pod and of the order of reservations with the records.
func (c *comparison) compareIndexes() {
	for k, n := range c.inNS {
		c.order.add([]byte(k), orderCount(n))
	}
	c.compareIndex(bucketOwners, "index of attachments by pod", c.owners)
	c.compareIndex(bucketOrder, "order of reservations", c.order)
}

// hold notes the addresses of a record. Only so many shared addresses are noted as a report can name.
func (c *comparison) hold(network string, addrs []netip.Addr) {
	for _, a := range addrs {
		k, at := chunkKey(network, a)
		bitmap := c.impliedChunk(k)
		if bitmap.has(at) && len(c.shared) < mostFaults {
			c.shared[network+" "+a.String()] = true
		}
		bitmap[at/8] |= 1 << (at % 8)
	}
}

// impliedChunk returns the bitmap at a key that the records imply.
func (c *comparison) impliedChunk(k []byte) *chunk {
	bitmap := c.held[string(k)]
	if bitmap == nil {
		bitmap = new(chunk)
		c.held[string(k)] = bitmap
	}
	return bitmap
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
	_ = c.t.bucket(bucketHeld).forEach(func(k, v []byte) error { // the function returns no error
		got, err := openChunk(k, v)
		if err != nil {
			c.r.fault(FaultIndex, readable(k), err.Error())
		} else {
			c.r.compareChunk(k, got, *c.impliedChunk(k))
		}
		delete(c.held, string(k))
		return nil
	})
	for _, k := range slices.Sorted(maps.Keys(c.held)) {
		c.r.compareChunk([]byte(k), chunk{}, *c.held[k])
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

// tally stands for the entries of an index: their number, and a sum of their hashes. Other entries have another one.
type tally struct {
	entries int
	sum     uint64
}

var tallySeed = maphash.MakeSeed()

func (y *tally) add(k, v []byte) {
	y.entries++
	y.sum += maphash.Bytes(tallySeed, k) * (2*maphash.Bytes(tallySeed, v) + 1)
}

// compareIndex compares an index with the entries that the records imply.
func (c *comparison) compareIndex(name []byte, subject string, want tally) {
	var got tally
	_ = c.t.bucket(name).forEach(func(k, v []byte) error { got.add(k, v); return nil }) // the function returns no error
	if got != want {
		c.r.fault(FaultIndex, subject, fmt.Sprintf("has %d entries, which are not the %d that the records make", got.entries, want.entries))
	}
}

// compareCounts compares the counts of reservations with the reservations.
func (c *comparison) compareCounts() {
	for network, n := range reservedIn(c.t) {
		n -= c.guests[network]
		p, err := c.t.PoolUsage(network)
		if err == nil && p.Reserved != n {
			err = fmt.Errorf("are %d, but the counter says %d", n, p.Reserved)
		}
		if err != nil {
			c.r.fault(FaultIndex, "reservations of "+network, err.Error())
		}
	}
}
