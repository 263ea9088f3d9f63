package disruption

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
)

// chains remembers the controllers of pods during one decision: thousands of pods have few.
type chains struct {
	cached client.Reader
	known  map[types.UID][]workload.Owner
	last   types.UID // the owner of the last pod, often that of the next one
	chain  []workload.Owner
}

func newChains(cached client.Reader) *chains {
	return &chains{cached: cached, known: map[types.UID][]workload.Owner{}}
}

// of returns the controllers of a pod, the nearest first.
func (c *chains) of(ctx context.Context, pod *corev1.Pod) ([]workload.Owner, error) {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return nil, nil
	}
	if ref.UID == c.last {
		return c.chain, nil
	}
	chain, ok := c.known[ref.UID]
	if !ok {
		var err error
		if chain, err = cluster.ChainOf(ctx, c.cached, pod); err != nil {
			return nil, err
		}
		c.known[ref.UID] = chain
	}
	c.last, c.chain = ref.UID, chain
	return chain, nil
}
