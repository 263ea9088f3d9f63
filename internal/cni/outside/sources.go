package outside

import (
	"errors"
	"net/netip"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// Sources are those that know something. Their answers are merged in order.
type Sources []Source

// Add merges what the sources know. Of facts that only one can give, the first counts.
func (s Sources) Add(a reservation.Attachment) (Add, error) {
	var all Add
	for _, source := range s {
		one, err := source.Add(a)
		if err != nil {
			return all, err
		}
		all.merge(one)
	}
	return all, nil
}

func (a *Add) merge(b Add) {
	a.Existing = first(a.Existing, b.Existing)
	a.Living = first(a.Living, b.Living)
	a.Kept = first(a.Kept, b.Kept)
	a.Reclaim = append(a.Reclaim, b.Reclaim...)
	if a.Denies == nil {
		a.Denies = b.Denies
	}
	if a.Taken == nil {
		a.Taken, a.Cursor = b.Taken, b.Cursor
	}
	if a.Stored == nil {
		a.Stored, a.Done = b.Stored, b.Done
	}
}

func first[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

// EndAlone merges what the sources know. It stops at the first that needs a state.
func (s Sources) EndAlone(a reservation.Attachment, why Reason) (Alone, error) {
	var after []func() error
	for _, source := range s {
		one, err := source.EndAlone(a, why)
		if err != nil || one.NeedState {
			return one, err
		}
		if one.After != nil {
			after = append(after, one.After)
		}
	}
	return Alone{After: func() error {
		var errs []error
		for _, f := range after {
			errs = append(errs, f())
		}
		return errors.Join(errs...)
	}}, nil
}

// Find returns the addresses that the first source finds.
func (s Sources) Find(id reservation.AttachmentID) ([]netip.Addr, error) {
	for _, source := range s {
		if addrs, err := source.Find(id); len(addrs) > 0 || err != nil {
			return addrs, err
		}
	}
	return nil, nil
}

// Collect merges what the sources do after a GC.
func (s Sources) Collect(valid map[reservation.AttachmentID]bool) (Collected, error) {
	var all []Collected
	for _, source := range s {
		one, err := source.Collect(valid)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return func(ended []reservation.Attachment, err error) error {
		for _, after := range all {
			if after != nil {
				err = errors.Join(err, after(ended, err))
			}
		}
		return err
	}, nil
}
