package books

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// sweepSize is the number of remembered books at which those are forgotten that are too old.
const sweepSize = 1024

// memory has the books that the cache may not show yet: own writes, and reads past the cache.
type memory struct {
	mu     sync.Mutex
	books  map[client.ObjectKey]remembered
	sweeps int // at which size the next sweep is due
}

type remembered struct {
	version *version // nil for a book that does not exist
	at      time.Time
}

// put remembers a book, unless a newer version is known. A nil version is a book that does not exist.
func (m *memory) put(key client.ObjectKey, v *version, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.books == nil {
		m.books = map[client.ObjectKey]remembered{}
	}
	if known := m.books[key]; v != nil && known.version != nil && older(v, known.version) {
		return
	}
	m.books[key] = remembered{v, now}
	if len(m.books) < max(m.sweeps, sweepSize) {
		return
	}
	for k, r := range m.books {
		if now.Sub(r.at) >= cluster.CacheLag {
			delete(m.books, k)
		}
	}
	m.sweeps = 2 * len(m.books)
}

// newest returns the version of the cache, or the one of the memory, whichever is newer.
func (m *memory) newest(key client.ObjectKey, cached *version, now time.Time) *version {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.books[key]
	switch {
	case !ok:
		return cached
	case now.Sub(known.at) >= cluster.CacheLag,
		cached == nil && known.version == nil,
		cached != nil && known.version != nil && !older(cached, known.version):
		delete(m.books, key)
		return cached
	}
	return known.version
}

func older(a, b *version) bool {
	order, err := resourceversion.CompareResourceVersion(a.meta.ResourceVersion, b.meta.ResourceVersion)
	return err == nil && order < 0
}

// read returns the newest known version of a book; nil when it does not exist.
func (b *Books) read(ctx context.Context, key client.ObjectKey) (*version, error) {
	cached, err := get(ctx, b.Cached, key, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, err
	}
	return b.memory.newest(key, cached, b.Clock.Now()), nil
}

// readLive reads a book past the cache, and remembers it.
func (b *Books) readLive(ctx context.Context, key client.ObjectKey) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	now := b.Clock.Now()
	v, err := get(ctx, b.Live, key)
	if err != nil {
		return err
	}
	b.memory.put(key, v, now)
	return nil
}

func get(ctx context.Context, from client.Reader, key client.ObjectKey, options ...client.GetOption) (*version, error) {
	var o limpetv1alpha1.DisruptionBook
	switch err := from.Get(ctx, key, &o, options...); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // a book that does not exist is an answer
	case err != nil:
		return nil, fmt.Errorf("get DisruptionBook %s: %w", key, err)
	}
	return read(&o), nil
}
