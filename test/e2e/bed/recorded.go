package bed

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Recorded returns the node that the PersistentPodState has recorded for each pod.
func (b *Bed) Recorded(ctx context.Context, namespace, name string) (map[string]string, error) {
	path := "/apis/apps.kruise.io/v1alpha1/namespaces/" + namespace + "/persistentpodstates/" + name
	data, err := b.Client.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("get PersistentPodState %s/%s: %w", namespace, name, err)
	}
	var state struct {
		Status struct {
			PodStates map[string]struct {
				NodeName string `json:"nodeName"`
			} `json:"podStates"`
		} `json:"status"`
	}
	if err := json.Unmarshal(data, &state); err != nil {
		return nil, fmt.Errorf("decode PersistentPodState %s/%s: %w", namespace, name, err)
	}
	nodes := map[string]string{}
	for pod, s := range state.Status.PodStates {
		nodes[pod] = s.NodeName
	}
	return nodes, nil
}

// AwaitRecorded waits until a PersistentPodState has recorded a pod on a node.
func (b *Bed) AwaitRecorded(ctx context.Context, namespace, state, pod, node string) error {
	return Await(ctx, time.Minute, "the record of "+pod, func(ctx context.Context) (bool, string) {
		nodes, err := b.Recorded(ctx, namespace, state)
		return err == nil && nodes[pod] == node, fmt.Sprint(nodes, err)
	})
}
