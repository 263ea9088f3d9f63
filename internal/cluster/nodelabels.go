package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MissingLabels returns which of some keys no node has as a label, and the keys of one node. It
// returns neither while there is no node. A key that a node has costs no further search.
func MissingLabels(ctx context.Context, r client.Reader, keys []string) (missing, known []string, err error) {
	for _, key := range keys {
		has, err := anyNode(ctx, r, client.HasLabels{key})
		if err != nil {
			return nil, nil, err
		}
		if has == nil {
			missing = append(missing, key)
		}
	}
	if len(missing) == 0 {
		return nil, nil, nil
	}
	some, err := anyNode(ctx, r)
	if some == nil || err != nil {
		return nil, nil, err
	}
	return missing, slices.Sorted(maps.Keys(some.Labels)), nil
}

// anyNode returns one of the nodes that meet some options; nil for none.
func anyNode(ctx context.Context, r client.Reader, options ...client.ListOption) (*corev1.Node, error) {
	var list corev1.NodeList
	if err := r.List(ctx, &list, append(options, client.Limit(1), client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, nil //nolint:nilnil // both callers handle a missing node
	}
	return &list.Items[0], nil
}
