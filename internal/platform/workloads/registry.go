// Package workloads knows the kinds of workload whose pods return, and reads workloads of
// these kinds.
//
//	Registry  the kinds that count and those that the API server serves, as known now
//	Watcher   keeps the registry up to date, and watches the kinds that are served
//	Reader    reads a workload: how many pods it wants, and its metadata
//
// Kinds come and go while the controller runs: the StatefulSet of OpenKruise is served
// when OpenKruise is installed, and further kinds are named in a ConfigMap.
package workloads

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"sync/atomic"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// ErrUnread is returned until the kinds were read for the first time.
var ErrUnread = errors.New("kinds of workload are not read yet")

// errNotServed is why a kind that the API server does not serve cannot be read.
var errNotServed = errors.New("not served by the API server")

// StatefulSets is the kind of workload that every replica has in its cache.
var StatefulSets = appsv1.SchemeGroupVersion.WithKind("StatefulSet")

// Kind is a kind that the API server serves and lets the controller read; or err says why
// it cannot be read.
type Kind struct {
	schema.GroupVersionKind
	scale bool // the kind has a scale subresource
	err   error
}

// Registry holds the kinds that count, and those that the API server serves. The zero
// value knows none yet. It may be read while a Watcher writes it.
type Registry struct {
	kinds   atomic.Pointer[workload.Kinds]
	served  atomic.Pointer[map[schema.GroupKind]Kind]
	held    atomic.Pointer[map[schema.GroupKind]Kind]
	changed chan event.GenericEvent

	spreads        atomic.Pointer[spreadKinds]
	spreadsChanged chan event.GenericEvent
}

// NewRegistry returns a registry that reports its changes.
func NewRegistry() *Registry {
	return &Registry{changed: make(chan event.GenericEvent, 1), spreadsChanged: make(chan event.GenericEvent, 1)}
}

// Changed receives an event when other kinds than before count or are served.
func (r *Registry) Changed() <-chan event.GenericEvent { return r.changed }

// Forbidden says why the controller may not read workloads of a named kind, and what helps; ""
// for any other kind.
func (r *Registry) Forbidden(t workload.Target) string {
	if err := r.known()[t.GroupKind()].err; apierrors.IsForbidden(err) {
		return remedied(err)
	}
	return ""
}

// known are the kinds that were asked for; nil before.
func (r *Registry) known() map[schema.GroupKind]Kind {
	if served := r.served.Load(); served != nil {
		return *served
	}
	return nil
}

// remedied is the text of an error, with a remedy where a right is missing.
func remedied(err error) string {
	if !apierrors.IsForbidden(err) {
		return err.Error()
	}
	return err.Error() + `; remedy: a ClusterRole with the label limpet.dev/aggregate-to-controller: "true" that allows ` +
		"get, list, watch and patch of this kind, and get of its scale, as in deploy/examples/custom-target.yaml"
}

// Kinds returns the kinds that count now.
func (r *Registry) Kinds() workload.Kinds {
	if kinds := r.kinds.Load(); kinds != nil {
		return *kinds
	}
	return workload.Kinds{}
}

// Ready is the readiness check of the webhooks: without the kinds they would create pods
// of these kinds without their place.
func (r *Registry) Ready(*http.Request) error {
	if r.kinds.Load() == nil {
		return ErrUnread
	}
	return nil
}

// Served returns the served kind of a target, or says why it cannot be read.
func (r *Registry) Served(t workload.Target) (Kind, error) {
	served := r.known()
	if served == nil {
		return Kind{}, ErrUnread
	}
	kind, ok := served[t.GroupKind()]
	if !ok {
		kind.err = errNotServed
	}
	if kind.err != nil {
		return kind, fmt.Errorf("%s of %s: %w", t.Kind, t.Group, kind.err)
	}
	return kind, nil
}

// Readable returns the kinds that are served and can be read.
func (r *Registry) Readable() []schema.GroupVersionKind { return readable(r.known()) }

// Held returns the kinds beside those of Kubernetes whose workloads the cache holds; none without a registry.
func (r *Registry) Held() []schema.GroupVersionKind {
	if r == nil || r.held.Load() == nil {
		return nil
	}
	return readable(*r.held.Load())
}

func readable(of map[schema.GroupKind]Kind) (kinds []schema.GroupVersionKind) {
	for _, kind := range of {
		if kind.err == nil {
			kinds = append(kinds, kind.GroupVersionKind)
		}
	}
	return kinds
}

// set replaces what is known, and reports whether it is another than before.
func (r *Registry) set(kinds workload.Kinds, served map[schema.GroupKind]Kind) (changed bool) {
	kindsBefore, servedBefore := r.kinds.Swap(&kinds), r.served.Swap(&served)
	if kindsBefore != nil && reflect.DeepEqual(*kindsBefore, kinds) && sameServed(*servedBefore, served) {
		return false
	}
	notify(r.changed, &appsv1beta1.PersistentPodState{})
	return true
}

// notify sends an event, unless the receiver has not read the last one yet.
func notify(to chan<- event.GenericEvent, about client.Object) {
	select {
	case to <- event.GenericEvent{Object: about}:
	default:
	}
}

func sameServed(a, b map[schema.GroupKind]Kind) bool {
	return maps.EqualFunc(a, b, func(x, y Kind) bool {
		return x.GroupVersionKind == y.GroupVersionKind && x.scale == y.scale && (x.err == nil) == (y.err == nil)
	})
}

// Short is the object that stands for a kind whose workloads the cache holds.
func Short(kind schema.GroupVersionKind) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	return o
}

// Metadata is the object that stands for a kind of which only the metadata is watched.
func Metadata(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(kind)
	return o
}
