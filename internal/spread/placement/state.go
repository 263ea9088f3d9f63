package placement

import (
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// errUncounted is why a replica must not place pods.
var errUncounted = errors.New("the pods are not counted yet")

// longest is the length of the names that a tally keeps. No spread and no subset has a longer one.
const longest = 253

// state is what a tally counts of a pod. The zero value is a pod that does not count.
type state struct {
	ownerKey
	node   string
	active bool
	place  place
	// creation is the key of the pod's entry: the UID of the request, or the name of the pod.
	creation string
}

// stateOf reads a pod. A pod without a controller does not count, and neither does nil.
func stateOf(pod *corev1.Pod) state {
	if pod == nil {
		return state{}
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.UID == "" {
		return state{}
	}
	s := state{ownerKey: ownerKey{pod.Namespace, owner.UID}, node: pod.Spec.NodeName, active: workload.Alive(pod)}
	text, annotated := pod.Annotations[appsv1beta1.AnnotationMatchedSpread]
	if !annotated {
		return s
	}
	match, err := appsv1beta1.ParseMatch(text)
	if err != nil || len(match.Name) > longest || len(match.Subset) > longest || len(match.UID) > longest {
		return s // such a pod has no subset
	}
	s.place = place{match.Name, match.Subset}
	if s.creation = match.UID; s.creation == "" {
		s.creation = NameKey(pod.Name)
	}
	return s
}

// equal reports whether two states count the same. The node of a pod with a subset does not count.
func (s state) equal(other state) bool {
	if s.place != (place{}) && other.place != (place{}) {
		s.node, other.node = "", ""
	}
	return s == other
}

// NameKey is the key of the entry of a pod whose name is given.
func NameKey(pod string) string { return "/" + pod }

// mostRecent bounds the memory of creations. If more pods than that are created in a minute, the
// older ones are forgotten; their entries then stay until they expire, and no subset is overfilled.
const mostRecent = 65536

// creationKey is a creation that became a pod. Users choose what their pods say, so that the
// namespace belongs to the key.
type creationKey struct{ namespace, key string }

// recent remembers creations in two halves: when the newer one is old or full, it becomes the
// older one.
type recent struct {
	newer, older map[creationKey]sight
	since        time.Time
}

// sight is when a pod was first seen, and in which version.
type sight struct {
	version string
	at      time.Time
}

func (r *recent) put(key creationKey, version string, now time.Time) {
	if now.Sub(r.since) > remembered || len(r.newer) >= mostRecent {
		r.older, r.newer, r.since = r.newer, nil, now
	}
	if r.newer == nil {
		r.newer = map[creationKey]sight{}
	}
	key.key = strings.Clone(key.key) // of an annotation
	r.newer[key] = sight{version, now}
}

func (r *recent) get(key creationKey) (s sight, ok bool) {
	if s, ok = r.newer[key]; ok {
		return s, true
	}
	s, ok = r.older[key]
	return s, ok
}
