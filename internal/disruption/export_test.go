package disruption

import "context"

// Count is what a decision in a namespace looks at.
func (r *Reader) Count(ctx context.Context, namespace string) (int, error) {
	return r.count(ctx, namespace)
}
