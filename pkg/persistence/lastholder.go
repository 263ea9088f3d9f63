package persistence

import (
	"bytes"
	"fmt"
	"net/netip"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// bucketLastHolders maps a network and a free address to a lastHolderRecord. Files of earlier versions do not have the bucket.
// An address that is held has no record: hold deletes the record, and the deletion of the holder writes a new one.
var bucketLastHolders = []byte("lastholders")

type lastHolderRecord struct {
	Network     string     `json:"net"`
	Address     netip.Addr `json:"ip"`
	ContainerID string     `json:"id,omitempty"`
	NetNS       string     `json:"netns"`
	NetNSDev    uint64     `json:"nsdev"`
	NetNSInode  uint64     `json:"nsino"`
	NetNSBoot   string     `json:"nsboot,omitempty"`
}

func encodeLastHolder(r reservation.LastHolder) ([]byte, error) {
	return seal(lastHolderRecord{r.Network, r.Address, r.ContainerID, r.NetNS.Path, r.NetNS.Dev, r.NetNS.Inode, r.BootID})
}

func decodeLastHolder(data []byte) (reservation.LastHolder, error) {
	var r lastHolderRecord
	if err := unseal(data, &r); err != nil {
		return reservation.LastHolder{}, fmt.Errorf("decode last holder: %w", err)
	}
	return reservation.LastHolder{
		Network: r.Network, Address: r.Address, ContainerID: r.ContainerID,
		NetNS: reservation.NetNS{Path: r.NetNS, Dev: r.NetNSDev, Inode: r.NetNSInode}, BootID: r.NetNSBoot,
	}, nil
}

func lastHolderKey(network string, a netip.Addr) []byte {
	return append(key(network, ""), a.AsSlice()...)
}

func keyOfLastHolder(r reservation.LastHolder) []byte { return lastHolderKey(r.Network, r.Address) }

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
	if r, err = decodeLastHolder(data); err == nil {
		err = atKey(k, keyOfLastHolder(r))
	}
	return r, err == nil, err
}

// SomeLastHolders returns the last holders of at most n free addresses of a network.
func (t *Tx) SomeLastHolders(network string, n int) ([]reservation.LastHolder, error) {
	b := t.tx.Bucket(bucketLastHolders)
	if b == nil {
		return nil, nil
	}
	var some []reservation.LastHolder
	prefix := key(network, "")
	c := b.Cursor()
	for k, v := c.Seek(prefix); len(some) < n && bytes.HasPrefix(k, prefix); k, v = c.Next() {
		r, err := decodeLastHolder(v)
		if err == nil {
			err = atKey(k, keyOfLastHolder(r))
		}
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
		data, err := encodeLastHolder(last)
		if err == nil {
			err = t.tx.Bucket(bucketLastHolders).Put(keyOfLastHolder(last), data)
		}
		if err != nil {
			return fmt.Errorf("remember last holder of %s: %w", a, err)
		}
	}
	return nil
}
