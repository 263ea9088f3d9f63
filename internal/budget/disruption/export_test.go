package disruption

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Count is what a decision in a namespace looks at.
func (r *Reader) Count(ctx context.Context, namespace string) (int, error) {
	return r.count(ctx, namespace)
}

// Cached is the cache of a reader.
func (r *Reader) Cached() cache.Cache { return r.cached }
