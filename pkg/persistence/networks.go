package persistence

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// Cursor returns the address last handed out from a range set. The address is invalid when there is none.
func (t *Tx) Cursor(network string, set int) netip.Addr {
	a, _ := netip.ParseAddr(string(t.bucket(bucketCursors).get(cursorKey(network, set)))) // an unreadable cursor counts as none
	return a
}

// SetCursor stores the address last handed out from a range set.
func (t *Tx) SetCursor(network string, set int, a netip.Addr) error {
	return t.bucket(bucketCursors).put(cursorKey(network, set), []byte(a.String()))
}

// cursorKey returns the key of a cursor.
func cursorKey(network string, set int) []byte {
	k := key(network, "")
	if set > 255 {
		return binary.BigEndian.AppendUint32(k, uint32(set))
	}
	return append(k, byte(set))
}

// SetConfig stores the configuration of a network as the ADD has it, for reports about the pool. The value is opaque to
// this package. Writing the same value again writes no page.
func (t *Tx) SetConfig(network string, config []byte) error {
	b := t.bucket(bucketNetworks)
	if bytes.Equal(b.get(key(network)), config) {
		return nil
	}
	return b.put(key(network), config)
}

// HasConfig reports whether SetConfig was last called with this for a network.
func (t *Tx) HasConfig(network string, config []byte) bool {
	return bytes.Equal(t.bucket(bucketNetworks).get(key(network)), config)
}

// Configured reports whether SetConfig was called for a network since the state was created.
func (t *Tx) Configured(network string) bool {
	return t.bucket(bucketNetworks).get(key(network)) != nil
}

// Networks returns the configurations by network. The value is nil for a network that occurs only in records, as after a
// rebuild.
func (t *Tx) Networks() (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, network := range t.recordNetworks() {
		all[network] = nil
	}
	err := t.bucket(bucketNetworks).forEach(func(k, v []byte) error {
		all[string(k)] = bytes.Clone(v)
		return nil
	})
	return all, err
}

// recordNetworks returns the sorted names of the networks that occur in records.
func (t *Tx) recordNetworks() (names []string) {
	for _, bucket := range [][]byte{bucketAttachments, bucketReservations} {
		c := t.bucket(bucket).cursor()
		for k, _ := c.first(); k != nil; {
			network, _, _ := bytes.Cut(k, key("", ""))
			names = append(names, string(network))
			k, _ = c.seek(append(bytes.Clone(network), 1)) // after all keys of the network
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// PoolUsage counts the reservations of a network, and holds the limits for them.
type PoolUsage struct {
	// Reserved counts the reservations, lapsed ones included.
	Reserved int64 `json:"reserved"`
	// Limits are the limits in the configuration of the last ADD; nil before the first ADD, when nothing is limited.
	Limits *reservation.Limits `json:"-"`
	// Reclaimed counts the reservations that gave way to a pod, Displaced the ones that gave way to another
	// reservation, and Refused the ones that were asked for and not made.
	Reclaimed uint64 `json:"reclaimed,omitempty"`
	Displaced uint64 `json:"gaveWay,omitempty"`
	Refused   uint64 `json:"turnedAway,omitempty"`
	// Exhausted counts the ADDs that found no free address.
	Exhausted uint64 `json:"exhausted,omitempty"`
	// InUse counts the free addresses that ADDs passed over, because the kernel of the node used them.
	InUse uint64 `json:"inUse,omitempty"`
}

func (f *form) poolUsage(p *PoolUsage) {
	integer(f, `{"reserved":`, &p.Reserved)
	mayInteger(f, `,"reclaimed":`, &p.Reclaimed)
	mayInteger(f, `,"gaveWay":`, &p.Displaced)
	mayInteger(f, `,"turnedAway":`, &p.Refused)
	mayInteger(f, `,"exhausted":`, &p.Exhausted)
	mayInteger(f, `,"inUse":`, &p.InUse)
	if !f.may(`,"limits":`, p.Limits == nil) {
		return
	}
	l := made(&p.Limits)
	integer(f, `{"pods":`, &l.Share.Pods)
	mayInteger(f, `,"perNamespace":`, &l.Share.PerNamespace)
	f.mayTrue(`,"refuse":`, &l.Share.Refuse)
	mayInteger(f, `,"maxRetain":`, &l.MaxRetain)
	mayInteger(f, `,"releaseDelay":`, &l.ReleaseDelay)
	f.at("}")
}

func encodePoolUsage(p PoolUsage) ([]byte, error) {
	return encode(func(f *form) { f.poolUsage(&p) })
}

func decodePoolUsage(data []byte) (p PoolUsage, err error) {
	f := reading(data)
	f.poolUsage(&p)
	if err = f.end(); err != nil {
		return PoolUsage{}, fmt.Errorf("decode pool usage: %w", err)
	}
	return p, nil
}

// PoolUsage returns the counts and limits of a network; the zero value before the first ADD.
func (t *Tx) PoolUsage(network string) (PoolUsage, error) {
	data := t.bucket(bucketPoolUsage).get(key(network))
	if data == nil {
		return PoolUsage{}, nil
	}
	return decodePoolUsage(data)
}

// updateUsage changes the counts and limits of a network. Writing the same values again writes no page.
func (t *Tx) updateUsage(network string, change func(*PoolUsage)) error {
	p, err := t.PoolUsage(network)
	if err != nil {
		return err
	}
	change(&p)
	data, err := encodePoolUsage(p)
	if err != nil {
		return fmt.Errorf("encode pool usage: %w", err)
	}
	b := t.bucket(bucketPoolUsage)
	if bytes.Equal(b.get(key(network)), data) {
		return nil
	}
	return b.put(key(network), data)
}

// SetLimits stores the limits of a network, for later ends of attachments and for the agent.
func (t *Tx) SetLimits(network string, l reservation.Limits) error {
	return t.updateUsage(network, func(p *PoolUsage) { p.Limits = &l })
}

// Reclaim deletes and counts a reservation that gives way to a pod.
func (t *Tx) Reclaim(o reservation.Owner) error {
	if err := t.DeleteReservation(o); err != nil {
		return err
	}
	return t.updateUsage(o.Network, func(p *PoolUsage) { p.Reclaimed++ })
}

// Displace deletes and counts a reservation that gives way to another reservation.
func (t *Tx) Displace(o reservation.Owner) error {
	if err := t.DeleteReservation(o); err != nil {
		return err
	}
	return t.updateUsage(o.Network, func(p *PoolUsage) { p.Displaced++ })
}

// CountRefused counts a reservation for which the share of the pool had no room.
func (t *Tx) CountRefused(network string) error {
	return t.updateUsage(network, func(p *PoolUsage) { p.Refused++ })
}

// CountExhausted counts an ADD that found no free address.
func (t *Tx) CountExhausted(network string) error {
	return t.updateUsage(network, func(p *PoolUsage) { p.Exhausted++ })
}

// CountInUse counts free addresses that an ADD passed over.
func (t *Tx) CountInUse(network string, addresses int) error {
	return t.updateUsage(network, func(p *PoolUsage) { p.InUse += uint64(addresses) })
}

// reservedIn counts the reservations of each network, including networks that have only a record of their usage.
func reservedIn(t *Tx) map[string]int64 {
	reserved := map[string]int64{}
	add := func(n int64) func(k, _ []byte) error {
		return func(k, _ []byte) error {
			network, _, _ := bytes.Cut(k, []byte{0})
			reserved[string(network)] += n
			return nil
		}
	}
	_ = t.bucket(bucketReservations).forEach(add(1)) // the function returns no error
	_ = t.bucket(bucketPoolUsage).forEach(add(0))    // neither does this one
	return reserved
}
