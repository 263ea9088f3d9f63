package cluster

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// WithRanges returns nodes as if the ranges that the NodeNetwork gives them were pod CIDRs. No cache has the NodeNetwork, which is
// an optional kind.
func WithRanges(ctx context.Context, live client.Reader, nodes map[string]*corev1.Node) (map[string]*corev1.Node, error) {
	var o limpetv1alpha1.NodeNetwork
	err := live.Get(ctx, client.ObjectKey{Name: limpetv1alpha1.NodeNetworkName}, &o)
	if NotServed(err) || apierrors.IsForbidden(err) {
		return nodes, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get NodeNetwork: %w", err)
	}
	with := maps.Clone(nodes)
	for _, r := range o.Spec.Ranges {
		if n := with[r.Node]; n != nil {
			n = n.DeepCopy()
			n.Spec.PodCIDRs = append(n.Spec.PodCIDRs, r.CIDR)
			with[r.Node] = n
		}
	}
	return with, nil
}
