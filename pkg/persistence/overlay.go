package persistence

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// A transaction reads the fold, which is a bbolt file, through what the journal has changed since. What the transaction
// writes changes the layers, and becomes one frame of the journal.

// layer is what the journal changed in one bucket: the value at each key; nil for a deleted one.
type layer struct {
	at     map[string][]byte
	sorted []string // the keys in order, for cursors
	stale  bool     // sorted lacks keys
}

func (l *layer) put(k string, v []byte) {
	if l.at == nil {
		l.at = map[string][]byte{}
	}
	if _, known := l.at[k]; !known {
		l.stale = true
	}
	l.at[k] = v
}

// layers are those of all buckets.
type layers [maxBuckets]layer

func (l *layers) put(c change) { l[c.bucket].put(c.key, c.value) }

// changes returns all changes in the order of their keys.
func (l *layers) changes() (all []change) {
	for n := range l {
		for _, k := range l[n].keys() {
			all = append(all, change{byte(n), k, l[n].at[k]})
		}
	}
	return all
}

// keys returns the changed keys in order.
func (l *layer) keys() []string {
	if l.stale {
		l.sorted, l.stale = slices.Sorted(maps.Keys(l.at)), false
	}
	return l.sorted
}

// change is a write of one key; a nil value deletes it.
type change struct {
	bucket byte // number in buckets
	key    string
	value  []byte
}

// bucket is a bucket of a transaction.
type bucket struct {
	t      *Tx
	number byte
	base   *bolt.Bucket // nil where the fold has none
	layer  *layer
}

// bucket returns a bucket by its name.
func (t *Tx) bucket(name []byte) *bucket {
	for n := range buckets {
		if bytes.Equal(buckets[n], name) {
			return t.numbered(byte(n))
		}
	}
	panic("no bucket " + string(name))
}

func (t *Tx) numbered(n byte) *bucket {
	b := &t.open[n]
	if b.t == nil {
		*b = bucket{t: t, number: n, layer: &t.layers[n]}
		if t.base != nil {
			b.base = t.base.Bucket(buckets[n])
		}
	}
	return b
}

// get returns the value at a key; nil when there is none. The caller must not change it.
func (b *bucket) get(k []byte) []byte {
	if v, changed := b.layer.at[string(k)]; changed {
		return v
	}
	if b.base == nil {
		return nil
	}
	return b.base.Get(k)
}

// put stores a value, which the caller must not change afterwards.
func (b *bucket) put(k, v []byte) error {
	if !b.t.writable {
		return errReadOnly
	}
	if v == nil {
		v = []byte{}
	}
	b.t.change(change{b.number, string(k), v})
	return nil
}

// delete deletes a key. Deleting a key that is not there writes nothing.
func (b *bucket) delete(k []byte) error {
	if !b.t.writable {
		return errReadOnly
	}
	if b.get(k) != nil {
		b.t.change(change{b.number, string(k), nil})
	}
	return nil
}

func (t *Tx) change(c change) {
	t.changes = append(t.changes, c)
	t.layers.put(c)
}

// nextSequence returns a number that is higher than all that the bucket has given out.
func (b *bucket) nextSequence() (uint64, error) {
	n := b.sequence() + 1
	return n, b.setSequence(n)
}

// sequence returns the last number that the bucket has given out.
func (b *bucket) sequence() uint64 {
	return number(b.t.bucket(bucketMeta).get(sequenceKey(b.number)))
}

// setSequence sets the last number that the bucket has given out.
func (b *bucket) setSequence(n uint64) error {
	return b.t.bucket(bucketMeta).put(sequenceKey(b.number), binary.BigEndian.AppendUint64(nil, n))
}

func sequenceKey(bucket byte) []byte { return key("sequence", string(buckets[bucket])) }

// forEach calls fn with each entry in the order of keys, until fn fails. fn must not change the bucket.
func (b *bucket) forEach(fn func(k, v []byte) error) error {
	c := b.cursor()
	for k, v := c.first(); k != nil; k, v = c.next() {
		if err := fn(k, v); err != nil {
			return err
		}
	}
	return nil
}

// cursor returns a cursor over the entries. After a change of the bucket it must be positioned again.
func (b *bucket) cursor() *cursor {
	c := &cursor{layer: b.layer}
	if b.base != nil {
		c.base = b.base.Cursor()
	}
	return c
}

// cursor merges the entries of the fold and of the layer.
type cursor struct {
	base  *bolt.Cursor
	layer *layer
	k, v  []byte // the next entry of the fold
	keys  []string
	at    int // of the next key of the layer
	read  int // entries since giveBack
}

// giveAfter is the number of entries after which a cursor gives back what it has read.
const giveAfter = 1 << 9

// giveBack unmaps the pages of the fold: one that is read as a whole does not fill the memory of the process.
func (c *cursor) giveBack() {
	if c.read++; c.read < giveAfter || c.base == nil {
		return
	}
	c.read = 0
	if tx := c.base.Bucket().Tx(); tx.DB().IsReadOnly() {
		unmap(tx)
	}
}

// unmap unmaps the pages of a file. The next access maps a page again, from the cache of the kernel.
func unmap(tx *bolt.Tx) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, tx.DB().Info().Data, uintptr(tx.Size()), unix.MADV_DONTNEED)
}

// first moves to the first entry.
func (c *cursor) first() (k, v []byte) { return c.seek(nil) }

// seek moves to the first entry at or after a key.
func (c *cursor) seek(k []byte) ([]byte, []byte) {
	c.k, c.v = nil, nil
	if c.base != nil {
		c.k, c.v = c.base.Seek(k)
	}
	c.keys = c.layer.keys()
	c.at, _ = slices.BinarySearch(c.keys, string(k))
	return c.next()
}

// next moves to the next entry; the key is nil behind the last one.
func (c *cursor) next() (k, v []byte) {
	c.giveBack()
	for {
		if c.at == len(c.keys) || c.k != nil && string(c.k) < c.keys[c.at] {
			k, v = c.k, c.v
			if k != nil {
				c.k, c.v = c.base.Next()
			}
			return k, v
		}
		changed := c.keys[c.at]
		c.at++
		if string(c.k) == changed && c.k != nil {
			c.k, c.v = c.base.Next()
		}
		if v := c.layer.at[changed]; v != nil {
			return []byte(changed), v
		}
	}
}
