package installation

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/limpet-io/limpet/internal/cluster"
	"github.com/limpet-io/limpet/internal/evict"
	"github.com/limpet-io/limpet/pkg/fit"
	"github.com/limpet-io/limpet/pkg/workload"
)

const (
	// apartInterval is the time between two looks.
	apartInterval = 30 * time.Second
	// apartAfter is how long another node must have been able to take the replica.
	apartAfter = time.Minute
)

// nameLabel is the label by which the Deployment selects its pods.
const nameLabel = "app.kubernetes.io/name"

// Apart deletes the pod of its replica if that shares a node with the leader and another node can
// take it. The Deployment's spread constraint puts the next pod there. At a first installation
// only one node may be Ready, and both replicas start there.
type Apart struct {
	// Cached reads nodes and pods.
	Cached client.Reader
	// Live reads the pods of the replicas past the cache, which holds only parts of them.
	Live client.Reader
	// Leader returns the identity of the replica that leads; "" while that is unknown.
	Leader  func() string
	Evictor *evict.Evictor
	Clock   clock.Clock
	// Pod is the pod of this replica.
	Pod client.ObjectKey

	since time.Time // when a node was first found that can take the replica; zero for none
}

// SetupWithManager runs Apart in every replica.
func (a *Apart) SetupWithManager(mgr ctrl.Manager) error { return mgr.Add(a) }

// NeedLeaderElection tells that Apart runs in replicas that do not lead.
func (a *Apart) NeedLeaderElection() bool { return false }

// Start looks until the context ends.
func (a *Apart) Start(ctx context.Context) error {
	for {
		select {
		case <-a.Clock.After(apartInterval):
		case <-ctx.Done():
			return nil
		}
		if err := a.look(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "The replicas were not spread over nodes")
		}
	}
}

// look deletes the pod if it should leave its node.
func (a *Apart) look(ctx context.Context) error {
	in, err := a.gather(ctx)
	if err != nil {
		return err
	}
	node := leave(in)
	switch now := a.Clock.Now(); {
	case node == "":
		a.since = time.Time{}
		return nil
	case a.since.IsZero():
		a.since = now
		return nil
	case now.Sub(a.since) < apartAfter:
		return nil
	}
	log.FromContext(ctx).Info("This replica leaves the node of the leader", "node", in.self.Spec.NodeName, "other", node)
	_, err = a.Evictor.Delete(ctx, in.self)
	return err
}

// apartInput is what leave decides from.
type apartInput struct {
	self     *corev1.Pod // nil outside of a pod
	leader   string
	replicas []corev1.Pod
	nodes    []*corev1.Node
	on       map[string][]corev1.Pod // the pods on each node
}

func (a *Apart) gather(ctx context.Context) (apartInput, error) {
	in := apartInput{leader: a.Leader(), self: &corev1.Pod{}, on: map[string][]corev1.Pod{}}
	if in.leader == "" || strings.HasPrefix(in.leader, a.Pod.Name+"_") {
		return apartInput{}, nil
	}
	switch err := a.Live.Get(ctx, a.Pod, in.self); {
	case apierrors.IsNotFound(err):
		return apartInput{}, nil
	case err != nil:
		return in, fmt.Errorf("get pod %s: %w", a.Pod, err)
	}
	var replicas corev1.PodList
	if err := a.Live.List(ctx, &replicas, client.InNamespace(a.Pod.Namespace), client.MatchingLabels{nameLabel: in.self.Labels[nameLabel]}); err != nil {
		return in, fmt.Errorf("list replicas: %w", err)
	}
	in.replicas = replicas.Items
	var err error
	if in.nodes, err = cluster.Nodes(ctx, a.Cached); err != nil || !besideLeader(in) {
		return in, err
	}
	for _, n := range in.nodes {
		if in.on[n.Name], err = cluster.PodsOn(ctx, a.Cached, n.Name); err != nil {
			return in, err
		}
	}
	return in, nil
}

// leave returns a node that can take the replica, if the replica shares its node with the leader,
// which is Ready; "" otherwise. The leader stays, so that never all replicas leave.
func leave(in apartInput) string {
	if !besideLeader(in) {
		return ""
	}
	for _, n := range in.nodes {
		if free(in, n) {
			return n.Name
		}
	}
	return ""
}

// besideLeader tells whether the replica is on the node of the leader.
func besideLeader(in apartInput) bool {
	if in.self == nil || !workload.Ready(in.self) || !workload.Alive(in.self) {
		return false
	}
	for i := range in.replicas {
		p := &in.replicas[i]
		if p.Name != in.self.Name && strings.HasPrefix(in.leader, p.Name+"_") && twins(p, in.self) {
			return p.Spec.NodeName == in.self.Spec.NodeName && workload.Ready(p) && workload.Alive(p)
		}
	}
	return false
}

// free tells whether a node can take the replica and has none yet.
func free(in apartInput, n *corev1.Node) bool {
	reason, _ := fit.Obstacle(n, in.self)
	if reason != "" || !fit.Admits(in.self, n) || fit.Shortage(n, in.self, in.on[n.Name]) != "" {
		return false
	}
	for i := range in.replicas {
		if p := &in.replicas[i]; p.Spec.NodeName == n.Name && twins(p, in.self) {
			return false
		}
	}
	return true
}

// twins tells whether two pods have the same ReplicaSet, and so the same revision.
func twins(a, b *corev1.Pod) bool {
	of, with := metav1.GetControllerOf(a), metav1.GetControllerOf(b)
	return of != nil && with != nil && of.UID == with.UID
}
