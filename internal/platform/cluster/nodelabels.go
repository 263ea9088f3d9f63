package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MissingLabels returns which of some keys no node has as a label; none while there is no node.
func MissingLabels(ctx context.Context, r client.Reader, keys []string) (missing []string, err error) {
	if some, err := anyNode(ctx, r); !some || err != nil {
		return nil, err
	}
	for _, key := range keys {
		has, err := anyNode(ctx, r, client.HasLabels{key})
		if err != nil {
			return nil, err
		}
		if !has {
			missing = append(missing, key)
		}
	}
	return missing, nil
}

// anyNode reports whether a node meets some options.
func anyNode(ctx context.Context, r client.Reader, options ...client.ListOption) (bool, error) {
	var list corev1.NodeList
	if err := r.List(ctx, &list, append(options, client.Limit(1), client.UnsafeDisableDeepCopy)...); err != nil {
		return false, fmt.Errorf("list nodes: %w", err)
	}
	return len(list.Items) > 0, nil
}
