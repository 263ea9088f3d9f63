package pods

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

// DefaultRuntimeSocket is where containerd listens.
const DefaultRuntimeSocket = "/run/containerd/containerd.sock"

// listTimeout bounds one question to the runtime.
const listTimeout = 10 * time.Second

// Runtime lists the sandboxes of the container runtime of this node.
type Runtime struct {
	conn   *grpc.ClientConn
	client runtimev1.RuntimeServiceClient
}

// NewRuntime returns a source that has not connected yet.
func NewRuntime(socket string) (*Runtime, error) {
	conn, err := dial(socket)
	if err != nil {
		return nil, err
	}
	return &Runtime{conn: conn, client: runtimev1.NewRuntimeServiceClient(conn)}, nil
}

// Run closes the connection when ctx ends. The runtime is asked for each list.
func (r *Runtime) Run(ctx context.Context) error {
	<-ctx.Done()
	_ = r.conn.Close() // the agent ends
	return nil
}

// Pods returns the pods of all sandboxes that the runtime knows, also of those that ended, with the
// annotations of the moment in which a sandbox was created.
func (r *Runtime) Pods(ctx context.Context) (list plan.PodList, known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	answer, err := r.client.ListPodSandbox(ctx, &runtimev1.ListPodSandboxRequest{})
	if err != nil {
		return list, false, fmt.Errorf("list sandboxes of the runtime: %w", err)
	}
	list = plan.PodList{FromCreation: true, Containers: map[string]bool{}}
	for _, s := range answer.GetItems() {
		list.Containers[s.GetId()] = true
		m := s.GetMetadata()
		list.Items = append(list.Items, plan.Strip(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: m.GetNamespace(), Name: m.GetName(), UID: types.UID(m.GetUid()), Annotations: s.GetAnnotations(),
		}}))
	}
	return list, true, nil
}
